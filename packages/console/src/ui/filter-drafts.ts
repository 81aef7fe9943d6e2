import { onScopeDispose, reactive, watch } from "vue";
import { onBeforeRouteLeave } from "vue-router";
import { useQuery } from "./screen.ts";

/**
 * Filters in the address. Typed text gets there when typing pauses; one step back undoes a whole typed text, where a change
 * is a step in the browser's history at all.
 */
export function useFilterDrafts<Key extends string>(
  keys: readonly Key[],
  { pause = 300, isStep = true } = {},
) {
  const { text, set: setQuery } = useQuery();
  const drafts = reactive(Object.fromEntries(keys.map((key) => [key, text(key)]))) as Record<Key, string>; // One for each key.
  const timers = new Map<string, ReturnType<typeof setTimeout>>();
  let typedLast: string | undefined;

  /** An empty text takes a filter away. `typed`: the field in which somebody types on, which replaces what it said before. */
  function set(change: Readonly<Record<string, string>>, typed?: string): void {
    const goesOn = !isStep || (typed !== undefined && typedLast === typed);
    typedLast = typed;
    const news = Object.entries(change).filter(([key, value]) => text(key) !== value);
    const query = Object.fromEntries(news.map(([key, value]) => [key, value || undefined]));
    if (news.length > 0) void setQuery(query, goesOn ? "replace" : "push");
  }
  function type(key: Key): void {
    clearTimeout(timers.get(key));
    const commit = () => {
      timers.delete(key);
      set({ [key]: drafts[key].trim() }, key);
    };
    timers.set(key, setTimeout(commit, pause));
  }
  function clear(): void {
    for (const timer of timers.values()) clearTimeout(timer);
    timers.clear();
  }
  watch(
    () => keys.map(text),
    () => {
      // What is being typed is newer than the address.
      for (const key of keys)
        if (!timers.has(key) && drafts[key].trim() !== text(key)) drafts[key] = text(key);
    },
  );
  onBeforeRouteLeave(clear);
  onScopeDispose(clear);
  /** What is typed from now on is a step of its own. */
  const endTyping = () => {
    typedLast = undefined;
  };
  return { drafts, text, set, type, endTyping };
}
