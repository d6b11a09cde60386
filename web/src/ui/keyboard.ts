/** Keys. Rows that can be walked carry `data-row`; the current one is the one with the focus. */

export const KEYS = [
  ["/", "Search"],
  ["j k", "Next or previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["Esc", "Close, or leave the field"],
  ["?", "This list"],
] as const;

interface Keyboard {
  help: () => void;
  visit: (key: string) => void;
}

export function listen({ help, visit }: Keyboard): () => void {
  let going = 0;
  const pressed = (event: KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "Escape") return (document.activeElement as HTMLElement | null)?.blur();
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (Date.now() - going < 1000) {
      going = 0;
      return visit(event.key);
    }
    switch (event.key) {
      case "/":
        event.preventDefault();
        return document.getElementById("search")?.focus();
      case "?":
        return help();
      case "j":
        return walk(1);
      case "k":
        return walk(-1);
      case "x":
        return current()?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
      case "Enter":
        if (event.target === current()) current()?.querySelector<HTMLElement>("a")?.click();
        return;
      case "g":
        going = Date.now();
    }
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.matches("input:not([type=checkbox]), textarea, select") || target.isContentEditable);

const rows = () => [...document.querySelectorAll<HTMLElement>("[data-row]")];
const current = () => document.activeElement?.closest<HTMLElement>("[data-row]") ?? null;

function walk(step: number): void {
  const all = rows();
  const at = all.indexOf(current()!);
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
