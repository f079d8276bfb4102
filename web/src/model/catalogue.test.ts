// Every sentence that the page shows is in the one catalogue: no other file has a word for people in it.
import ts from "typescript";
import { expect, test } from "vitest";

const FILES = import.meta.glob<string>(["../**/*.ts", "../**/*.tsx", "!../**/*.test.ts", "!./text.ts"], { query: "?raw", import: "default", eager: true });
const SHOWN = new Set([
  ...["alt", "aria-label", "bodyContent", "clickTip", "content", "description", "detail", "headerContent", "hoverTip", "label"],
  ...["message", "placeholder", "textAriaLabel", "text", "title", "titleText", "toggleAriaLabel", "toggleText", "valueText"],
]);
const WORD = /\p{L}{2}/u;

/** The literals that an expression may be worth. */
function worth(node: ts.Node | undefined): string[] {
  if (node === undefined) {
    return [];
  }
  if (ts.isStringLiteralLike(node)) {
    return [node.text];
  }
  if (ts.isTemplateExpression(node)) {
    return [node.head.text, ...node.templateSpans.flatMap((each) => [each.literal.text, ...worth(each.expression)])];
  }
  if (ts.isConditionalExpression(node)) {
    return [...worth(node.whenTrue), ...worth(node.whenFalse)];
  }
  if (ts.isBinaryExpression(node)) {
    const joins = [ts.SyntaxKind.BarBarToken, ts.SyntaxKind.QuestionQuestionToken, ts.SyntaxKind.PlusToken];
    return joins.includes(node.operatorToken.kind) ? [...worth(node.left), ...worth(node.right)] : [];
  }
  return ts.isParenthesizedExpression(node) || ts.isJsxExpression(node) ? worth(node.expression) : [];
}

/** What a file shows by itself. */
function shownBy(name: string, source: string): string[] {
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isJsxText(node)) {
      found.push(node.text);
    } else if (ts.isJsxExpression(node) && (ts.isJsxElement(node.parent) || ts.isJsxFragment(node.parent))) {
      found.push(...worth(node));
    } else if (ts.isJsxAttribute(node) && SHOWN.has(node.name.getText())) {
      found.push(...worth(node.initializer));
    } else if (ts.isPropertyAssignment(node) && SHOWN.has(node.name.getText())) {
      found.push(...worth(node.initializer));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(name, source, ts.ScriptTarget.Latest, true, name.endsWith("x") ? ts.ScriptKind.TSX : ts.ScriptKind.TS));
  return found.filter((each) => WORD.test(each)).map((each) => `${name}: ${each.trim()}`);
}

test("a sentence outside of the catalogue would be found", () => {
  const source = 'const a = <p title={b ? "one" : c}>two {d || `three ${e}`}</p>; const f = { detail: "four", kind: "not shown" };';
  expect(shownBy("a.tsx", source).sort()).toEqual(["a.tsx: four", "a.tsx: one", "a.tsx: three", "a.tsx: two"]);
});

test("no file but the catalogue has words for people", () => {
  expect(Object.keys(FILES).length).toBeGreaterThan(30);
  expect(Object.entries(FILES).flatMap(([name, source]) => shownBy(name, source))).toEqual([]);
});
