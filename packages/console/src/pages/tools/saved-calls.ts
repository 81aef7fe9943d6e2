import { type Ref, ref, watch } from "vue";
import { keep, kept } from "../../text/kept.ts";

export interface SavedCall {
  readonly name: string;
  readonly args: unknown;
}

/** Sets of arguments that a person gave a name, kept in this browser for each tool. */
export function useSavedCalls(tool: Ref<string>): {
  readonly saved: Ref<readonly SavedCall[]>;
  save(name: string, args: unknown): void;
  remove(name: string): void;
} {
  const saved = ref<readonly SavedCall[]>([]);
  const keyOf = () => `toolrack.saved.${tool.value}`;
  watch(
    tool,
    () => {
      saved.value = read(kept(keyOf()));
    },
    { immediate: true },
  );
  const store = (calls: readonly SavedCall[]) => {
    saved.value = calls;
    keep(keyOf(), calls.length === 0 ? undefined : JSON.stringify(calls));
  };
  return {
    saved,
    save: (name, args) => store([...saved.value.filter((call) => call.name !== name), { name, args }]),
    remove: (name) => store(saved.value.filter((call) => call.name !== name)),
  };
}

function read(text: string | undefined): readonly SavedCall[] {
  try {
    const value: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(value) ? value.filter((part) => typeof part?.name === "string") : [];
  } catch {
    return [];
  }
}
