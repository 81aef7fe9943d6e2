import { shallowRef } from "vue";
import type { RouteLocationNormalized, Router } from "vue-router";
import { ApiError } from "../api/api-error.ts";

export interface FailedNavigation {
  /** Where somebody wanted to go. */
  readonly to: string;
  readonly error: ApiError;
}

/** The page that could not be fetched, until one could. */
export const failedNavigation = shallowRef<FailedNavigation>();

const KEY = "toolrack.reloaded";

/**
 * Pages are fetched when they are first opened. That fails while the server is away, which is told, and after the server
 * was upgraded: the files that this tab knows of are gone, and the new ones come by loading the address anew, once.
 */
export function watchNavigation(router: Router, reload = (path: string) => location.assign(path)): void {
  router.onError(async (thrown: unknown, to: RouteLocationNormalized) => {
    const isThere = await canBeReached();
    if (isThere && sessionStorage.getItem(KEY) !== to.fullPath) {
      sessionStorage.setItem(KEY, to.fullPath);
      reload(to.fullPath);
      return;
    }
    const error = isThere
      ? new ApiError(0, "page_not_loaded", String(thrown))
      : new ApiError(0, "unreachable", "");
    failedNavigation.value = { to: to.fullPath, error };
  });
  router.afterEach((to, _from, failure) => {
    if (failure !== undefined) return;
    failedNavigation.value = undefined;
    if (sessionStorage.getItem(KEY) === to.fullPath) sessionStorage.removeItem(KEY);
  });
}

async function canBeReached(): Promise<boolean> {
  return fetch("/healthz", { cache: "no-store", credentials: "omit" }).then(
    ({ ok }) => ok,
    () => false,
  );
}
