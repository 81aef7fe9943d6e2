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
import type { Component } from "vue";
import type { RouteRecordRaw } from "vue-router";

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
