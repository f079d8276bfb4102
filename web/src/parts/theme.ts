// Light or dark: the reader's choice, else the system's.
export type Theme = "light" | "dark";

const KEY = "edgewright-theme";

/** What was chosen last, else what the system prefers. */
export function chosenTheme(): Theme {
  const kept = localStorage.getItem(KEY);
  if (kept === "light" || kept === "dark") {
    return kept;
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** Shows a theme and remembers it. */
export function applyTheme(theme: Theme): void {
  document.documentElement.classList.toggle("pf-v6-theme-dark", theme === "dark");
  localStorage.setItem(KEY, theme);
}
