// The lines that differ between two texts, with the longest common part kept. Pure, for texts of a few thousand lines.

export interface Line {
  sign: " " | "+" | "-";
  text: string;
}

/** What has to be taken away and added to make `before` into `after`. */
export function diff(before: string, after: string): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    start += 1;
  }
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) {
    end += 1;
  }
  const left = a.slice(start, a.length - end);
  const right = b.slice(start, b.length - end);
  return [
    ...a.slice(0, start).map((text): Line => ({ sign: " ", text })),
    ...between(left, right),
    ...a.slice(a.length - end).map((text): Line => ({ sign: " ", text })),
  ];
}

function between(a: string[], b: string[]): Line[] {
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => best[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      best[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const found: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ sign: " ", text: a[i]! });
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      found.push({ sign: "-", text: a[i]! });
      i += 1;
    } else {
      found.push({ sign: "+", text: b[j]! });
      j += 1;
    }
  }
  return found;
}
