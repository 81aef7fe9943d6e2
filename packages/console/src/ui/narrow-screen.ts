import { readonly, ref } from "vue";

/** Whether the page is as narrow as on a phone, where only short texts fit into a field. */
const query = matchMedia("(max-width: 39.99rem)");
const isNarrow = ref(query.matches);
query.addEventListener("change", ({ matches }) => {
  isNarrow.value = matches;
});

export const narrowScreen = readonly(isNarrow);
