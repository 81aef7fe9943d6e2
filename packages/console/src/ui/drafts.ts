import { computed, onScopeDispose, type Ref, reactive, ref, shallowRef, toRefs, watch } from "vue";
import type { RouteLocationNormalized } from "vue-router";
import { ApiError, currentSession } from "../api/index.ts";
import { asJson, sameJson } from "../text/index.ts";
import { useAttempt } from "./server-value.ts";

export interface DraftOptions<Source, Form> {
  formOf(source: Source): Form;
  /** The form as text, to show two versions beside each other. By default a text as it is, and else JSON. */
  asText?(form: Form): string;
  /** Rejects with `skill_changed` when `seen` is not the version that the server has. */
  write(form: Form, seen: Source): Promise<Source>;
  read(): Promise<Source>;
  onSaved(saved: Source): void;
  /** Tells whether a navigation keeps the unsaved text. By default one that stays at the path does. */
  readonly survives?: Move;
  /** Tells whether there is more unsaved text, outside the form. */
  readonly hasMore?: () => boolean;
}

/** How often saving is tried when somebody else keeps saving first. */
const MOST_ATTEMPTS = 5;

/**
 * A form for something that others may change. Their changes show at once unless there is unsaved text; then `conflict`
 * holds both versions until the person chooses one.
 */
export function useDraft<Source, Form>(source: () => Source, options: DraftOptions<Source, Form>) {
  const { formOf, asText = (form: Form) => (typeof form === "string" ? form : asJson(form)) } = options;
  const base = shallowRef(source());
  /** Somebody else's newer version, when it differs from both the base and the typed one. */
  const theirs = shallowRef<Source>();
  const form = ref(formOf(base.value)) as Ref<Form>; // Forms are plain data, so a ref does not change their type.
  const isChanged = computed(() => !sameJson(form.value, formOf(base.value)));
  const saving = useAttempt();
  // While saving, a change on the server is our own.
  const conflict = computed(() =>
    theirs.value === undefined || saving.isBusy
      ? undefined
      : { theirs: asText(formOf(theirs.value)), mine: asText(form.value) },
  );

  function meet(now: Source): void {
    const isNews = !sameJson(formOf(now), formOf(base.value));
    theirs.value = isNews && isChanged.value && !sameJson(formOf(now), form.value) ? now : undefined;
    if (theirs.value === undefined) settle(now, isChanged.value);
  }
  /** Takes a version as the one that the form is based on. */
  function settle(now: Source | undefined, keepsForm: boolean): void {
    theirs.value = undefined;
    if (now === undefined) return;
    base.value = now;
    if (!keepsForm) form.value = formOf(now);
  }
  /** Saves on top of the version that was seen, or of a newer one with the same form. */
  async function write(): Promise<void> {
    for (let attempt = 1; theirs.value === undefined || attempt === 1; attempt++) {
      const sent = JSON.stringify(form.value);
      try {
        const now = await options.write(form.value, base.value);
        // Text that was typed during the save stays.
        settle(now, JSON.stringify(form.value) !== sent);
        return options.onSaved(now);
      } catch (thrown) {
        const isChangedElsewhere = thrown instanceof ApiError && thrown.code === "skill_changed";
        if (!isChangedElsewhere || attempt === MOST_ATTEMPTS) throw thrown;
        meet(await options.read());
      }
    }
  }
  watch(source, meet);
  useUnsavedWork(() => isChanged.value || options.hasMore?.() === true, options.survives ?? isSamePlace());
  return reactive({
    ...toRefs(saving),
    form,
    isChanged,
    conflict,
    /** Keeps the typed version; saving then replaces theirs. */
    keepMine: () => settle(theirs.value, true),
    takeTheirs: () => settle(theirs.value, false),
    /** Returns false if the server refused to save or failed. A conflict is no failure. */
    save: () => saving.run(write),
  });
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

/** Forgets all unsaved text after its item was removed, so that leaving the page asks nothing. */
export function dropUnsavedWork(): void {
  works.clear();
}

/** Returns a test whether a navigation stays at the same item: path and these query keys are unchanged. */
export function isSamePlace(...queries: readonly string[]): Move {
  return (to, from) =>
    to.name === from.name &&
    JSON.stringify(to.params) === JSON.stringify(from.params) &&
    queries.every((query) => String(to.query[query] ?? "") === String(from.query[query] ?? ""));
}

function warn(event: BeforeUnloadEvent): void {
  if ([...works].some(({ isUnsaved }) => isUnsaved())) event.preventDefault();
}

interface Keeping<Value> {
  readonly most: number;
  /** Values that are in use stay, even if there are too many. */
  readonly isInUse?: (value: Value) => boolean;
  readonly onDrop?: (value: Value) => void;
}

/** Values that outlive their page: the most recently used ones, until the person signs out. */
export class Recent<Value> {
  readonly #values = new Map<string, Value>();
  readonly #keeping: Keeping<Value>;

  constructor(keeping: Keeping<Value>) {
    this.#keeping = keeping;
    watch(
      () => currentSession.refusal,
      (refusal) => {
        if (refusal === "missing") for (const key of this.#values.keys()) this.delete(key);
      },
    );
  }

  get(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    for (const [oldest, known] of this.#values) {
      if (this.#values.size <= this.#keeping.most) return;
      if (this.#keeping.isInUse?.(known) !== true) this.delete(oldest);
    }
  }

  delete(key: string): void {
    const value = this.#values.get(key);
    if (this.#values.delete(key) && value !== undefined) this.#keeping.onDrop?.(value);
  }
}
