import { onBeforeUnmount, onMounted } from "vue";

/**
 * Keys for the whole page. Nothing happens while somebody types, nor while an input method is composing: there Enter
 * and letters belong to the word that is being written; nor in a dialog, which stands before the page. `mod+k` stands for
 * Ctrl or Command.
 */
export function useShortcuts(handlers: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  let prefix = "";
  let timer: ReturnType<typeof setTimeout> | undefined;

  const listen = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === 229 || event.defaultPrevented) return;
    const withMod = event.metaKey || event.ctrlKey;
    if (withMod) {
      run(`mod+${event.key.toLowerCase()}`, event);
      return;
    }
    if (event.altKey || isElsewhere(event)) return;
    const key = event.key === "?" ? "?" : event.key.toLowerCase();
    if (prefix !== "" && run(`${prefix} ${key}`, event)) {
      prefix = "";
      return;
    }
    if (run(key, event)) return;
    prefix = key;
    clearTimeout(timer);
    timer = setTimeout(() => {
      prefix = "";
    }, 1_200);
  };
  const run = (name: string, event: KeyboardEvent): boolean => {
    const handler = handlers[name];
    if (handler === undefined) return false;
    event.preventDefault();
    handler(event);
    return true;
  };
  onMounted(() => document.addEventListener("keydown", listen));
  onBeforeUnmount(() => {
    clearTimeout(timer);
    document.removeEventListener("keydown", listen);
  });
}

/** Whether the key belongs to a field or a dialog. The path reaches into shadow roots, where editors live. */
function isElsewhere(event: KeyboardEvent): boolean {
  const [target] = event.composedPath();
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest('[role="dialog"], [role="alertdialog"]') !== null) return true;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
