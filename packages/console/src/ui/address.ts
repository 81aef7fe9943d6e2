import { computed, onScopeDispose, reactive, watch } from "vue";
import { onBeforeRouteLeave, useRoute, useRouter } from "vue-router";

export function toCall(callId: string) {
  return { name: "call", params: { callId } };
}

export function toTool(tool: string, tab?: "about" | "tests") {
  return { name: "tools", params: { tool }, query: tab === undefined ? {} : { tab } };
}

/** The query of the address. A change keeps other keys, and `undefined` removes a key. */
export function useQuery() {
  const route = useRoute();
  const router = useRouter();
  return {
    text: (key: string) => (typeof route.query[key] === "string" ? route.query[key] : ""),
    async set(change: Readonly<Record<string, string | undefined>>, how: "replace" | "push" = "replace") {
      const kept = Object.entries({ ...route.query, ...change }).filter(([, value]) => value !== undefined);
      await router[how]({ query: Object.fromEntries(kept) });
    },
  };
}

/** The view that the address names under a key; default is the first, which is left out of the address. */
export function useView<View extends string>(key: string, views: () => readonly View[]) {
  const query = useQuery();
  return computed({
    get: () => views().find((known) => known === query.text(key)) ?? views()[0]!,
    set: (view) => void query.set({ [key]: view === views()[0] ? undefined : view }),
  });
}

/** Whether the address has a key, such as that of an open dialog. A change removes the `others`. */
export function useFlag(key: string, ...others: readonly string[]) {
  const route = useRoute();
  const query = useQuery();
  const removed = Object.fromEntries(others.map((other) => [other, undefined]));
  return computed({
    get: () => route.query[key] !== undefined,
    set: (isOn) => void query.set({ ...removed, [key]: isOn ? "" : undefined }),
  });
}

/**
 * Keeps filters in the address. Typed text is written when typing pauses; with `isStep`, one step back in the history
 * undoes a whole typed text.
 */
export function useFilterDrafts<Key extends string>(
  keys: readonly Key[],
  { pause = 300, isStep = true } = {},
) {
  const { text, set: setQuery } = useQuery();
  const drafts = reactive(Object.fromEntries(keys.map((key) => [key, text(key)]))) as Record<Key, string>; // The object has all keys.
  const timers = new Map<string, ReturnType<typeof setTimeout>>();
  let typedLast: string | undefined;

  /**
   * Writes filters into the address; an empty text removes a filter. `typed`: the field that is still being
   * typed in, whose last history step is replaced.
   */
  function set(change: Readonly<Record<string, string>>, typed?: string): void {
    const goesOn = !isStep || (typed !== undefined && typedLast === typed);
    typedLast = typed;
    const changed = Object.entries(change).filter(([key, value]) => text(key) !== value);
    const query = Object.fromEntries(changed.map(([key, value]) => [key, value || undefined]));
    if (changed.length > 0) void setQuery(query, goesOn ? "replace" : "push");
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
      // Typed text that is not written yet is newer than the address.
      for (const key of keys)
        if (!timers.has(key) && drafts[key].trim() !== text(key)) drafts[key] = text(key);
    },
  );
  onBeforeRouteLeave(clear);
  onScopeDispose(clear);
  /** Text typed from now on is a new history step. */
  const endTyping = () => {
    typedLast = undefined;
  };
  return { drafts, text, set, type, endTyping };
}
