import { onScopeDispose } from "vue";
import type { RouteLocationNormalized } from "vue-router";

type Move = (to: RouteLocationNormalized, from: RouteLocationNormalized) => boolean;

interface Work {
  readonly isUnsaved: () => boolean;
  readonly survives: Move;
}

const works = new Set<Work>();

/**
 * Something that somebody types and has not saved. `survives` says which moves within the console it outlives; before any
 * other, and before the window is closed, they are asked.
 */
export function useUnsavedWork(isUnsaved: () => boolean, survives: Move = () => false): void {
  const work = { isUnsaved, survives };
  if (works.size === 0) window.addEventListener("beforeunload", warn);
  works.add(work);
  onScopeDispose(() => {
    works.delete(work);
    if (works.size === 0) window.removeEventListener("beforeunload", warn);
  });
}

/** Whether a move would throw something away. */
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
