import {
  Activity,
  BookOpen,
  CalendarClock,
  House,
  MessageSquare,
  Plug,
  RefreshCw,
  Server,
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

/**
 * The pages of the navigation: each with the name of its route and of the text `navigation.NAME`, and the key that
 * opens it after `g`. A new page needs an entry here and its text.
 */
export const pages = [
  page("home", House, "h", "/", () => import("../pages/home/HomePage.vue")),
  page("tools", Wrench, "t", "/tools/:tool?", () => import("../pages/tools/ToolsPage.vue")),
  page("calls", Activity, "c", "/calls", () => import("../pages/calls/CallsPage.vue")),
  page("approvals", ShieldCheck, "a", "/approvals", () => import("../pages/approvals/ApprovalsPage.vue")),
  page("chat", MessageSquare, "d", "/chat/:session?", () => import("../pages/chat/ChatPage.vue")),
  page("schedules", CalendarClock, "l", "/schedules", () => import("../pages/schedules/SchedulesPage.vue")),
  page("skills", Sparkles, "k", "/skills/:skill?", () => import("../pages/skills/SkillsPage.vue")),
  page("offerings", BookOpen, "o", "/prompts", () => import("../pages/offerings/OfferingsPage.vue")),
  page("mcpServers", Plug, "m", "/mcp-servers/:server?", () => {
    return import("../pages/mcp-servers/McpServersPage.vue");
  }),
  page("reloads", RefreshCw, "r", "/reloads", () => import("../pages/reloads/ReloadsPage.vue")),
  page("nodes", Server, "n", "/nodes", () => import("../pages/nodes/NodesPage.vue")),
  page("settings", Settings, "s", "/settings", () => import("../pages/settings/SettingsPage.vue")),
];

function page(name: string, icon: Component, key: string, path: string, component: RouteComponent) {
  return { name, icon, key, route: { path, name, component } };
}
type RouteComponent = () => Promise<{ default: Component }>;

/** Routes without a link in the navigation; `meta.page` names the link that is highlighted for them. */
const further: readonly RouteRecordRaw[] = [
  {
    path: "/calls/:callId",
    name: "call",
    component: () => import("../pages/call/CallPage.vue"),
    meta: { page: "calls" },
  },
  {
    path: "/experts/:expert?",
    name: "experts",
    component: () => import("../pages/skills/SkillsPage.vue"),
    meta: { page: "skills" },
  },
  { path: "/:rest(.*)*", name: "notFound", component: () => import("../pages/NotFoundPage.vue") },
];

/** Creates the router, which reads the address at once: first let `openSession` remove the token from it. */
export function openRouter(): Router {
  const routes = [...pages.map(({ route }) => route), ...further];
  const router = createRouter({ history: createWebHistory(), routes });
  watchNavigation(router);
  return router;
}

/** The page that failed to load, until a page is loaded. */
export const failedNavigation = shallowRef<{ readonly to: string; readonly error: ApiError }>();

const KEY = "toolrack.reloaded";

/**
 * Handles pages that fail to load. If the server can be reached, it was probably upgraded, and the address is
 * loaded anew, once. If that fails too, or the server is away, the error is shown.
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
