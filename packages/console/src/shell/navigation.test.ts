// @vitest-environment happy-dom
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { createMemoryHistory, createRouter, type Router } from "vue-router";
import { failedNavigation, watchNavigation } from "./navigation.ts";

let reloads: string[];
let isBroken: boolean;
let router: Router;
let server: Server | undefined;

beforeEach(async () => {
  reloads = [];
  isBroken = true;
  sessionStorage.clear();
  failedNavigation.value = undefined;
  const page = { render: () => null };
  const later = () =>
    isBroken
      ? Promise.reject(new TypeError("Failed to fetch dynamically imported module"))
      : Promise.resolve(page);
  router = createRouter({
    history: createMemoryHistory(),
    routes: [
      { path: "/", component: page },
      { path: "/later", component: later },
    ],
  });
  watchNavigation(router, (path) => reloads.push(path));
  await router.push("/");
});
afterEach(() => {
  vi.unstubAllGlobals();
  server?.close();
  server = undefined;
});

it("says that a page cannot be opened while the server is away, until it can", async () => {
  answerFrom("http://127.0.0.1:1");
  await router.push("/later?a=1").catch(() => {});
  await vi.waitFor(() =>
    expect(failedNavigation.value).toMatchObject({ to: "/later?a=1", error: { code: "unreachable" } }),
  );
  expect(reloads).toEqual([]);
  isBroken = false;
  await router.push("/later?a=1");
  expect(failedNavigation.value).toBeUndefined();
});

it("loads the address anew when the server has other files now, but not for ever", async () => {
  await serveHealth();
  await router.push("/later").catch(() => {});
  await vi.waitFor(() => expect(reloads).toEqual(["/later"]));
  expect(failedNavigation.value).toBeUndefined();
  await router.push("/later").catch(() => {});
  await vi.waitFor(() => expect(failedNavigation.value?.error.code).toBe("page_not_loaded"));
  expect(reloads).toEqual(["/later"]);
});

async function serveHealth(): Promise<void> {
  server = createServer((_request, response) =>
    response.writeHead(200, { "access-control-allow-origin": "*" }).end("ok"),
  );
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // A server that listens on a port has such an address.
  answerFrom(`http://127.0.0.1:${port}`);
}

/** The page's own address is no server here, so requests go to one. */
function answerFrom(origin: string): void {
  const real = globalThis.fetch;
  vi.stubGlobal("fetch", (path: string, options: RequestInit) => real(origin + path, options));
}
