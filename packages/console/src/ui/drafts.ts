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
  /** What somebody else made of it meanwhile, where that is neither what it was nor what is typed here. */
  readonly theirs: ShallowRef<Source | undefined>;
  /** Goes on with what is typed: to save it is to replace theirs. */
  keepMine(): void;
  takeTheirs(): void;
  /** Saves as a change of what was seen. Another version whose form is the same is as good. Rejects when it is refused. */
  save(saving: Saving<Source>): Promise<"saved" | "conflict">;
}

export interface Saving<Source> {
  /** Rejects with `skill_changed` when `seen` is not the version that the server has. */
  write(seen: Source): Promise<Source>;
  read(): Promise<Source>;
}

/** How often somebody else may be faster in a row. */
const MOST_ATTEMPTS = 5;

/**
 * A form over something that others may change. Their changes show at once where nothing is typed; else
 * `theirs` holds them.
 */
export function useDraft<Source, Form>(
  source: () => Source,
  formOf: (source: Source) => Form,
): Draft<Source, Form> {
  const base = shallowRef(source());
  const theirs = shallowRef<Source>();
  const form = ref(formOf(base.value)) as Ref<Form>; // Forms are plain data, of which a ref makes nothing else.
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
          // What was typed on while it was saved stays.
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

/** Registers unsaved text: somebody who would lose it by a move, except one that it `survives`, is asked first. */
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

/** What is typed belongs to something that is gone, so nobody is asked about it. */
export function dropUnsavedWork(): void {
  works.clear();
}

/** A move to the same thing: only how it is looked at changes, apart from these parts of the address. */
export function isSamePlace(...queries: readonly string[]): Move {
  return (to, from) =>
    to.name === from.name &&
    JSON.stringify(to.params) === JSON.stringify(from.params) &&
    queries.every((query) => String(to.query[query] ?? "") === String(from.query[query] ?? ""));
}

function warn(event: BeforeUnloadEvent): void {
  if ([...works].some(({ isUnsaved }) => isUnsaved())) event.preventDefault();
}
