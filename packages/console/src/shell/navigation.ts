import {
  Activity,
  House,
  MessageSquare,
  Plug,
  RefreshCw,
  Settings,
  ShieldCheck,
  Sparkles,
  Wrench,
} from "@lucide/vue";
import { type Component, shallowRef } from "vue";
import {
  createRouter,
  createWebHistory,
  type RouteLocationNormalized,
  type RouteRecordRaw,
  type Router,
} from "vue-router";
import { ApiError } from "../api/index.ts";

export interface Page {
  /** Names the route, and the text `navigation.NAME`. */
  readonly name: string;
  readonly icon: Component;
  /** After `g`, the key that leads here. */
  readonly key: string;
  readonly routes: readonly RouteRecordRaw[];
}

/** Everything the navigation shows. A new page is one more entry, and its text in both languages. */
export const pages: readonly Page[] = [
  {
    name: "home",
    icon: House,
    key: "h",
    routes: [{ path: "/", name: "home", component: () => import("../pages/home/HomePage.vue") }],
  },
  {
    name: "tools",
    icon: Wrench,
    key: "t",
    routes: [
      { path: "/tools/:tool?", name: "tools", component: () => import("../pages/tools/ToolsPage.vue") },
    ],
  },
  {
    name: "calls",
    icon: Activity,
    key: "c",
    routes: [
      { path: "/calls", name: "calls", component: () => import("../pages/calls/CallsPage.vue") },
      {
        path: "/calls/:callId",
        name: "call",
        component: () => import("../pages/call/CallPage.vue"),
        meta: { page: "calls" },
      },
    ],
  },
  {
    name: "approvals",
    icon: ShieldCheck,
    key: "a",
    routes: [
      {
        path: "/approvals",
        name: "approvals",
        component: () => import("../pages/approvals/ApprovalsPage.vue"),
      },
    ],
  },
  {
    name: "chat",
    icon: MessageSquare,
    key: "d",
    routes: [
      { path: "/chat/:session?", name: "chat", component: () => import("../pages/chat/ChatPage.vue") },
    ],
  },
  {
    name: "skills",
    icon: Sparkles,
    key: "k",
    routes: [
      { path: "/skills/:skill?", name: "skills", component: () => import("../pages/skills/SkillsPage.vue") },
      {
        path: "/experts/:expert?",
        name: "experts",
        component: () => import("../pages/skills/SkillsPage.vue"),
        meta: { page: "skills" },
      },
    ],
  },
  {
    name: "mcpServers",
    icon: Plug,
    key: "m",
    routes: [
      {
        path: "/mcp-servers/:server?",
        name: "mcpServers",
        component: () => import("../pages/mcp-servers/McpServersPage.vue"),
      },
    ],
  },
  {
    name: "reloads",
    icon: RefreshCw,
    key: "r",
    routes: [
      { path: "/reloads", name: "reloads", component: () => import("../pages/reloads/ReloadsPage.vue") },
    ],
  },
  {
    name: "settings",
    icon: Settings,
    key: "s",
    routes: [
      { path: "/settings", name: "settings", component: () => import("../pages/settings/SettingsPage.vue") },
    ],
  },
];

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
