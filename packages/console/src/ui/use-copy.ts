import { onScopeDispose, type Ref, ref } from "vue";
import { copyText } from "../text/copy-text.ts";

/** What came of the last copy, for a moment. */
export type CopyState = "" | "copied" | "failed";

const MOMENT = 1_600;
/** Who has to copy by hand reads it first. */
const LONGER = 6_000;

/** Copies, and says so. */
export function useCopy(): { readonly state: Ref<CopyState>; copy(text: string): Promise<void> } {
  const state = ref<CopyState>("");
  let timer: ReturnType<typeof setTimeout> | undefined;
  onScopeDispose(() => clearTimeout(timer));
  return {
    state,
    async copy(text) {
      state.value = (await copyText(text)) ? "copied" : "failed";
      clearTimeout(timer);
      timer = setTimeout(
        () => {
          state.value = "";
        },
        state.value === "copied" ? MOMENT : LONGER,
      );
    },
  };
}
