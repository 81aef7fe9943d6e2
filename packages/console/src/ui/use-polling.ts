import { onScopeDispose } from "vue";

/** Does something every so many milliseconds for as long as the page lives and somebody can see it. */
export function usePolling(work: () => void, every: number): void {
  const timer = setInterval(() => {
    if (!document.hidden) work();
  }, every);
  onScopeDispose(() => clearInterval(timer));
}
