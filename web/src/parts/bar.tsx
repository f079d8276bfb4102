// A bar of shares, drawn as SVG, with the same numbers in words next to it.
import type { ReactElement } from "react";

const COLOURS = ["#0066cc", "#3e8635", "#f0ab00", "#c9190b", "#6753ac", "#009596", "#8a8d90", "#ec7a08"];

/** The longest parts first; what is left after eight is added up. */
export function shares(counts: Record<string, number>): [string, number][] {
  const sorted = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  const rest = sorted.slice(7).reduce((sum, each) => sum + each[1], 0);
  return rest ? [...sorted.slice(0, 7), ["…", rest]] : sorted.slice(0, 7);
}

export function Bar({ counts, label }: { counts: Record<string, number>; label: string }): ReactElement {
  const parts = shares(counts);
  const total = parts.reduce((sum, each) => sum + each[1], 0) || 1;
  let at = 0;
  const drawn = parts.map(([name, count], index) => {
    const part = <rect key={name} x={at} y="0" width={(100 * count) / total} height="10" fill={COLOURS[index]} />;
    at += (100 * count) / total;
    return part;
  });
  return (
    <figure>
      <svg className="ew-bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={label}>
        {drawn}
      </svg>
      <figcaption>{parts.map(([name, count]) => `${name}: ${count}`).join(" · ")}</figcaption>
    </figure>
  );
}
