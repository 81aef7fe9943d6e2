import { createRouter, createWebHistory, type Router } from "vue-router";
import { pages } from "./pages.ts";

/** Reads the address at once, so it is made after the token was taken out of it. */
export function openRouter(): Router {
  return createRouter({
    history: createWebHistory(),
    routes: [
      ...pages.flatMap(({ routes }) => routes),
      { path: "/:rest(.*)*", name: "nowhere", component: () => import("../pages/NowherePage.vue") },
    ],
  });
}
