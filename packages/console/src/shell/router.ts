import { createRouter, createWebHistory, type Router } from "vue-router";
import { watchNavigation } from "./failed-navigation.ts";
import { pages } from "./pages.ts";

/** Reads the address at once, so it is made after the token was taken out of it. */
export function openRouter(): Router {
  const router = createRouter({
    history: createWebHistory(),
    routes: [
      ...pages.flatMap(({ routes }) => routes),
      { path: "/:rest(.*)*", name: "nowhere", component: () => import("../pages/NowherePage.vue") },
    ],
  });
  watchNavigation(router);
  return router;
}
