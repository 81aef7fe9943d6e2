import {
  type ComputedRef,
  computed,
  onScopeDispose,
  type Ref,
  ref,
  type ShallowRef,
  shallowRef,
  watch,
} from "vue";
import type { RouteLocationNormalized } from "vue-router";
import { ApiError } from "../api/index.ts";
import { sameJson } from "../text/index.ts";

export interface Draft<Source, Form> {
  readonly form: Ref<Form>;
  readonly isChanged: ComputedRef<boolean>;
  /** Somebody else's newer version, when it differs from both the base and the typed one. */
  readonly theirs: ShallowRef<Source | undefined>;
  /** Keeps the typed version; saving then replaces theirs. */
  keepMine(): void;
  takeTheirs(): void;
  /**
   * Saves on top of the version that was seen, or of a newer one with the same form. Rejects when the server refuses.
   */
  save(saving: Saving<Source>): Promise<"saved" | "conflict">;
}

export interface Saving<Source> {
  /** Rejects with `skill_changed` when `seen` is not the version that the server has. */
  write(seen: Source): Promise<Source>;
  read(): Promise<Source>;
}

/** Attempts to save when somebody else keeps saving first. */
const MOST_ATTEMPTS = 5;

/**
 * A form for something that others may change. Their changes show at once unless there is unsaved text; then `theirs`
 * holds them.
 */
export function useDraft<Source, Form>(
  source: () => Source,
  formOf: (source: Source) => Form,
): Draft<Source, Form> {
  const base = shallowRef(source());
  const theirs = shallowRef<Source>();
  const form = ref(formOf(base.value)) as Ref<Form>; // Forms are plain data, so a ref does not change their type.
  const isBase = (now: Source) => sameJson(formOf(now), formOf(base.value));
  const isChanged = computed(() => !sameJson(form.value, formOf(base.value)));

  function meet(now: Source): void {
    if (!isBase(now) && isChanged.value && !sameJson(formOf(now), form.value)) {
      theirs.value = now;
      return;
    }
    const isFollowing = !isChanged.value;
    base.value = now;
    theirs.value = undefined;
    if (isFollowing) form.value = formOf(now);
  }
  watch(source, meet);

  return {
    form,
    isChanged,
    theirs,
    keepMine() {
      if (theirs.value !== undefined) base.value = theirs.value;
      theirs.value = undefined;
    },
    takeTheirs() {
      if (theirs.value === undefined) return;
      base.value = theirs.value;
      form.value = formOf(theirs.value);
      theirs.value = undefined;
    },
    async save({ write, read }) {
      for (let attempt = 1; ; attempt++) {
        const sent = JSON.stringify(form.value);
        try {
          const now = await write(base.value);
          // Keeps text that was typed during the save.
          const isSame = JSON.stringify(form.value) === sent;
          base.value = now;
          theirs.value = undefined;
          if (isSame) form.value = formOf(now);
          return "saved";
        } catch (thrown) {
          if (!(thrown instanceof ApiError) || thrown.code !== "skill_changed" || attempt === MOST_ATTEMPTS)
            throw thrown;
          meet(await read());
          if (theirs.value !== undefined) return "conflict";
        }
      }
    },
  };
}

type Move = (to: RouteLocationNormalized, from: RouteLocationNormalized) => boolean;

interface Work {
  readonly isUnsaved: () => boolean;
  readonly survives: Move;
}

const works = new Set<Work>();

/** Registers unsaved text: a navigation that would lose it asks first, unless the text `survives` it. */
export function useUnsavedWork(isUnsaved: () => boolean, survives: Move = () => false): void {
  const work = { isUnsaved, survives };
  if (works.size === 0) window.addEventListener("beforeunload", warn);
  works.add(work);
  onScopeDispose(() => {
    works.delete(work);
    if (works.size === 0) window.removeEventListener("beforeunload", warn);
  });
}

export function losesWork(to: RouteLocationNormalized, from: RouteLocationNormalized): boolean {
  return [...works].some(({ isUnsaved, survives }) => isUnsaved() && !survives(to, from));
}

/** Drops unsaved text of a removed item without asking. */
export function dropUnsavedWork(): void {
  works.clear();
}

/** Whether a navigation stays at the same item: path and these query keys are unchanged. */
export function isSamePlace(...queries: readonly string[]): Move {
  return (to, from) =>
    to.name === from.name &&
    JSON.stringify(to.params) === JSON.stringify(from.params) &&
    queries.every((query) => String(to.query[query] ?? "") === String(from.query[query] ?? ""));
}

function warn(event: BeforeUnloadEvent): void {
  if ([...works].some(({ isUnsaved }) => isUnsaved())) event.preventDefault();
}
