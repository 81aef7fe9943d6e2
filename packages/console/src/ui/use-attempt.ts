import { type Ref, ref, type ShallowRef, shallowRef } from "vue";
import { ApiError } from "../api/api-error.ts";

export interface Attempt {
  readonly isBusy: Ref<boolean>;
  /** What came of the last attempt, when it failed. */
  readonly failure: ShallowRef<ApiError | undefined>;
  /** Does the work and says whether it was done. Never rejects. */
  attempt(work: () => Promise<unknown>): Promise<boolean>;
}

/** Something that a person asks the server to do, and that may be refused. */
export function useAttempt(): Attempt {
  const isBusy = ref(false);
  const failure = shallowRef<ApiError>();
  return {
    isBusy,
    failure,
    async attempt(work) {
      isBusy.value = true;
      failure.value = undefined;
      try {
        await work();
        return true;
      } catch (thrown) {
        failure.value = ApiError.of(thrown);
        return false;
      } finally {
        isBusy.value = false;
      }
    },
  };
}
