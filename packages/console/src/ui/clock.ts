import { ref } from "vue";

/** The time, once a second for all that shows times; a page in the background does not tick. */
export const now = ref(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);
document.addEventListener("visibilitychange", () => {
  now.value = Date.now();
});
