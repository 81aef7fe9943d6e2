import { onScopeDispose, reactive, watch } from "vue";
import { onBeforeRouteLeave, useRoute, useRouter } from "vue-router";

const PAUSE = 300;

/**
 * Filters that are in the address. What is typed gets there when the typing pauses, each field for itself; a step back
 * goes to the filters before, and not through every pause.
 */
export function useFilterDrafts<Key extends string>(keys: readonly Key[]) {
  const route = useRoute();
  const router = useRouter();
  const text = (key: string) => (typeof route.query[key] === "string" ? String(route.query[key]) : "");
  const drafts = reactive(Object.fromEntries(keys.map((key) => [key, text(key)]))) as Record<Key, string>; // One for each key.
  const timers = new Map<string, ReturnType<typeof setTimeout>>();
  let typedLast: string | undefined;

  /** `typed`: it goes on with what the same field said before, and replaces it. */
  function set(key: string, value: string, typed = false): void {
    const goesOn = typed && typedLast === key;
    typedLast = typed ? key : undefined;
    if (text(key) === value) return;
    const query = Object.fromEntries(
      Object.entries({ ...route.query, [key]: value }).filter(([, part]) => part !== ""),
    );
    void (goesOn ? router.replace({ query }) : router.push({ query }));
  }
  function type(key: Key): void {
    clearTimeout(timers.get(key));
    const commit = () => {
      timers.delete(key);
      set(key, drafts[key].trim(), true);
    };
    timers.set(key, setTimeout(commit, PAUSE));
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
  return {
    drafts,
    text,
    set,
    type,
    /** What is typed from now on is a step of its own. */
    endTyping() {
      typedLast = undefined;
    },
  };
}
