import { describe, expect, it, vi } from "vitest";
import { type AuthorizationOptions, AuthorizationServer } from "../testing/authorization-server.fixture.ts";
import { LegacyHttpServer } from "../testing/legacy-http-server.fixture.ts";
import { ModernHttpServer } from "../testing/modern-http-server.fixture.ts";
import { UpstreamRack } from "../testing/upstream-rack.fixture.ts";

vi.setConfig({ testTimeout: 60_000 });

/** Where the rack would be reached. Nothing listens there: the tests bring back themselves what a browser would. */
const CALLBACK = "http://127.0.0.1:7300/oauth/callback";

class Scene {
  readonly rack: UpstreamRack;
  readonly authority: AuthorizationServer;
  readonly #stack: AsyncDisposableStack;

  private constructor(rack: UpstreamRack, authority: AuthorizationServer, stack: AsyncDisposableStack) {
    this.rack = rack;
    this.authority = authority;
    this.#stack = stack;
  }

  static async set(
    options: Partial<AuthorizationOptions> = {},
    era: "legacy" | "modern" | "sse" = "modern",
  ): Promise<Scene> {
    const stack = new AsyncDisposableStack();
    let behind: string;
    if (era === "modern") behind = stack.use(await ModernHttpServer.start()).url;
    else behind = stack.use(await LegacyHttpServer.start()).url(era === "sse" ? "/sse" : "/mcp");
    const authority = stack.use(await AuthorizationServer.start({ behind, ...options }));
    const rack = stack.use(await UpstreamRack.create());
    return new Scene(rack, authority, stack);
  }

  open(toolrack: object = {}, entry: object = {}): Promise<unknown> {
    return this.rack.open({ guarded: { url: this.authority.url, toolrack, ...entry } });
  }

  /** What the page sends the person back with. */
  async agree(page: string): Promise<URLSearchParams> {
    const { headers } = await fetch(page, { redirect: "manual" });
    return new URL(headers.get("location") ?? "").searchParams;
  }

  async signIn(): Promise<void> {
    await this.rack.until("guarded", "needs-auth");
    const { url } = await this.rack.servers.login("guarded", CALLBACK);
    await this.rack.servers.finishLogin("guarded", await this.agree(url));
    await this.rack.until("guarded", "ready");
  }

  echo(text: string) {
    return this.rack.call("mcp_guarded_echo", { text });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/**
 * From now on tokens are given when `give` is called, or are given and sent only then; `asked` resolves when somebody waits
 * for them.
 */
function hold(
  authority: AuthorizationServer,
  when: "beforeToken" | "afterToken" = "beforeToken",
): { asked: Promise<void>; give(): void } {
  const asked = Promise.withResolvers<void>();
  const given = Promise.withResolvers<void>();
  authority[when] = () => {
    asked.resolve();
    return given.promise;
  };
  return { asked: asked.promise, give: given.resolve };
}

describe("signing in at a server that asks for it", () => {
  it.each(["modern", "legacy", "sse"] as const)(
    "a %s server is ready once a person has agreed",
    async (era) => {
      await using scene = await Scene.set({}, era);
      const { rack, authority } = scene;
      await scene.open({}, era === "sse" ? { type: "sse" } : {});
      await rack.until("guarded", "needs-auth");
      expect(rack.servers.get("guarded")).toMatchObject({
        reason: expect.stringContaining("toolrack mcp-servers login guarded"),
        signIn: { signedIn: false, pending: false },
      });
      const { url, expiresAt } = await rack.servers.login("guarded", CALLBACK);
      expect(expiresAt).toBeGreaterThan(Date.now());
      expect(new URL(url).searchParams.get("redirect_uri")).toBe(`${CALLBACK}/guarded`);
      expect(rack.servers.get("guarded").signIn).toEqual({ signedIn: false, pending: true });
      await rack.servers.finishLogin("guarded", await scene.agree(url));
      await rack.until("guarded", "ready");
      expect(rack.servers.get("guarded").signIn).toEqual({ signedIn: true, pending: false });
      expect(await scene.echo("in")).toMatchObject({ content: "in" });
      expect(authority.grants).toEqual(["authorization_code"]);
    },
  );

  it("keeps the tokens sealed, uses them after a restart of the rack, and shows them nowhere", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    const row = await rack.store.secrets.get("mcp-oauth.guarded");
    const shown = [
      row,
      JSON.stringify(rack.servers.list()),
      JSON.stringify(rack.servers.log("guarded")),
      rack.messages.join("\n"),
    ].join("\n");
    for (const token of authority.given) {
      expect(shown).not.toContain(token);
      expect([...rack.secrets.values()]).toContain(token);
    }
    await rack.close();
    await using again = await UpstreamRack.create(rack.directory);
    await again.open({ guarded: { url: authority.url } });
    await again.until("guarded", "ready");
    for (const token of authority.given) expect([...again.secrets.values()]).toContain(token);
    expect(authority.grants).toEqual(["authorization_code"]);
  });

  it("takes an answer once, and only with the state of its own page", async () => {
    await using scene = await Scene.set();
    const { rack } = scene;
    await scene.open();
    await rack.until("guarded", "needs-auth");
    const first = await rack.servers.login("guarded", CALLBACK);
    const { url } = await rack.servers.login("guarded", CALLBACK);
    const finish = (answer: URLSearchParams) => rack.servers.finishLogin("guarded", answer);
    await expect(finish(new URLSearchParams({ code: "x", state: "guessed" }))).rejects.toThrow(
      /waits for this/,
    );
    await expect(finish(await scene.agree(first.url))).rejects.toThrow(/waits for this/);
    const mixedUp = await scene.agree(url);
    mixedUp.set("iss", "https://elsewhere.example");
    await expect(finish(mixedUp)).rejects.toThrow(/came to nothing/);
    const answer = await scene.agree(url);
    await expect(finish(answer)).rejects.toThrow(/waits for this/);
    const { url: third } = await rack.servers.login("guarded", CALLBACK);
    const good = await scene.agree(third);
    await finish(good);
    await expect(finish(good)).rejects.toThrow(/waits for this/);
    await rack.until("guarded", "ready");
  });

  it("is pending until the tokens are here, and its answer counts once all the while", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await rack.until("guarded", "needs-auth");
    const { asked, give } = hold(authority);
    const { url } = await rack.servers.login("guarded", CALLBACK);
    const answer = await scene.agree(url);
    const finished = rack.servers.finishLogin("guarded", answer);
    await asked;
    expect(rack.servers.get("guarded").signIn).toEqual({ signedIn: false, pending: true });
    await expect(rack.servers.finishLogin("guarded", answer)).rejects.toThrow("it was used already");
    give();
    await finished;
    expect(rack.servers.get("guarded").signIn).toEqual({ signedIn: true, pending: false });
  });

  it("says why when the person, or the authorization server, says no", async () => {
    await using scene = await Scene.set({ registers: false });
    const { rack } = scene;
    await scene.open();
    await rack.until("guarded", "needs-auth");
    await expect(rack.servers.login("guarded", CALLBACK)).rejects.toMatchObject({
      code: "mcp_sign_in_failed",
      message: expect.stringMatching(/dynamic client registration/),
    });
    await using other = await Scene.set();
    await other.open();
    await other.rack.until("guarded", "needs-auth");
    const { url } = await other.rack.servers.login("guarded", CALLBACK);
    const state = new URL(url).searchParams.get("state") ?? "";
    const no = new URLSearchParams({ error: "access_denied", error_description: "Not today", state });
    await expect(other.rack.servers.finishLogin("guarded", no)).rejects.toThrow(
      /access_denied \(Not today\)/,
    );
    expect(other.rack.servers.get("guarded").signIn).toMatchObject({
      signedIn: false,
      pending: false,
      problem: expect.stringContaining("access_denied"),
    });
  });

  it("registers once, and again only for another address of its own", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    await rack.servers.login("guarded", CALLBACK);
    expect(authority.registrations).toBe(1);
    await rack.servers.login("guarded", "https://rack.example/oauth/callback");
    expect(authority.registrations).toBe(2);
  });

  it("that nobody finishes leaves a client that the next one uses", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await rack.until("guarded", "needs-auth");
    for (let round = 0; round < 3; round++) await rack.servers.login("guarded", CALLBACK);
    await scene.signIn();
    expect(authority.registrations).toBe(1);
  });

  it("at an authorization server with an unusable page says so in a sentence", async () => {
    await using scene = await Scene.set({ page: "javascript:alert(1)" });
    await scene.open();
    await scene.rack.until("guarded", "needs-auth");
    const failed = await scene.rack.servers.login("guarded", CALLBACK).catch((error: Error) => error.message);
    expect(failed).toMatch(/came to nothing\. .*authorization_endpoint: .*\.$/);
    expect(failed).not.toMatch(/[{}[\]]/);
  });

  it("where registering is answered with nothing says so, and what to do", async () => {
    await using scene = await Scene.set({ registers: "empty" });
    await scene.open();
    await scene.rack.until("guarded", "needs-auth");
    await expect(scene.rack.servers.login("guarded", CALLBACK)).rejects.toThrow(
      /came to nothing\. The authorization server sent an answer that is empty .*toolrack\.oauth\.clientId\.$/,
    );
  });

  it("is not for a process, nor for a server that is sent a header of its entry", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await rack.open({
      local: { command: process.execPath, args: ["-e", ""], enabled: false },
      fixed: { url: authority.url, headers: { authorization: "Bearer wrong" } },
    });
    await rack.until("fixed", "needs-auth");
    expect(rack.servers.get("fixed").signIn).toBeUndefined();
    const refused = { code: "mcp_server_invalid" };
    expect(() => rack.servers.login("fixed", CALLBACK)).toThrow(expect.objectContaining(refused));
    expect(() => rack.servers.login("local", CALLBACK)).toThrow(expect.objectContaining(refused));
  });

  it("is not what a server asks for that refuses the key of its entry, unless the entry has both", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    const headers = { "X-Api-Key": "wrong" };
    await rack.open({
      keyed: { url: authority.url, headers },
      guarded: { url: authority.url, headers, toolrack: { oauth: {} } },
    });
    await rack.until("keyed", "needs-auth");
    expect(rack.servers.get("keyed").signIn).toBeUndefined();
    expect(rack.servers.get("keyed").reason).toMatch(
      /does not take the credentials of its entry\. Put others there.*restart keyed$/,
    );
    expect(() => rack.servers.login("keyed", CALLBACK)).toThrow(
      'Take them out of the entry first, or give it "toolrack": { "oauth": {} } if the server wants both.',
    );
    await scene.signIn();
    expect(await scene.echo("in")).toMatchObject({ content: "in" });
  });
});

describe.each(["modern", "legacy"] as const)("a %s server with a tool that needs a further scope", (era) => {
  it("refuses that call alone, and the next sign-in asks for the scope beside those before", async () => {
    await using scene = await Scene.set({ guarded: { tool: "grow", scope: "write" } }, era);
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    const { content } = await rack.call("mcp_guarded_grow");
    expect(content).toMatch(
      /"guarded" refused the call: .*the scope "write"\. Sign in again: toolrack mcp-servers login guarded/,
    );
    expect(rack.servers.get("guarded")).toMatchObject({ state: "ready", failures: 0 });
    expect(await scene.echo("still")).toMatchObject({ content: "still" });
    const { url } = await rack.servers.login("guarded", CALLBACK);
    await rack.servers.finishLogin("guarded", await scene.agree(url));
    await rack.eventually(
      async () => (await rack.call("mcp_guarded_grow")).type !== "error",
      "it is allowed",
    );
    // A sign-in after that does not lose it.
    await scene.agree((await rack.servers.login("guarded", CALLBACK)).url);
    expect(authority.scopes).toEqual(["use", "use write", "use write"]);
  });
});

describe("tokens", () => {
  it.each(["modern", "legacy"] as const)(
    "are renewed when a %s server refuses one, and the call goes on",
    async (era) => {
      await using scene = await Scene.set({}, era);
      const { rack, authority } = scene;
      await scene.open();
      await scene.signIn();
      authority.endAccessTokens();
      const answers = await Promise.all(["a", "b", "c"].map((text) => scene.echo(text)));
      expect(answers.map(({ content }) => content)).toEqual(["a", "b", "c"]);
      expect(authority.grants).toEqual(["authorization_code", "refresh_token"]);
      expect(rack.servers.get("guarded").state).toBe("ready");
    },
  );

  it("are renewed before they end, while calls go on", async () => {
    await using scene = await Scene.set({ seconds: 3 }, "legacy");
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    const states = new Set<string>();
    rack.servers.subscribe(() => states.add(rack.servers.get("guarded").state));
    await rack.eventually(() => authority.grants.length >= 3, "two renewals");
    expect(await scene.echo("still")).toMatchObject({ content: "still" });
    expect([...states]).toEqual(["ready"]);
  });

  it("that nobody renews any more lead back to needs-auth, and a new sign-in out of it", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    authority.endEverything();
    const { error } = await scene.echo("no");
    expect(error?.message ?? "").toMatch(/\(needs-auth\)\. .*Sign in: toolrack mcp-servers login guarded/);
    expect(rack.servers.get("guarded")).toMatchObject({
      state: "needs-auth",
      signIn: { signedIn: false, problem: expect.stringContaining("Sign in again") },
    });
    await scene.signIn();
    expect(await scene.echo("back")).toMatchObject({ content: "back" });
  });

  it("stay when the authorization server is only away for a while", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    authority.isDown = true;
    authority.endAccessTokens();
    await scene.echo("no");
    await rack.until("guarded", "backoff");
    expect(rack.servers.get("guarded").signIn?.signedIn).toBe(true);
    authority.isDown = false;
    await rack.servers.restart("guarded");
    expect(await scene.echo("back")).toMatchObject({ content: "back" });
  });

  it("are taken back and forgotten at the end", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    const { revoked, server } = await rack.servers.logout("guarded");
    expect([revoked, server.state, server.signIn?.signedIn]).toEqual([true, "needs-auth", false]);
    expect(authority.revoked.sort()).toEqual([...authority.given].sort());
    expect(await rack.secrets.list()).toEqual([]);
  });

  it("go to nobody else: another server under the same key starts without them", async () => {
    await using scene = await Scene.set();
    await using other = await AuthorizationServer.start({ behind: scene.authority.url });
    const { rack } = scene;
    await scene.open();
    await scene.signIn();
    await rack.writeFile({ mcpServers: { guarded: { url: other.url } } });
    await rack.servers.reload();
    await rack.until("guarded", "needs-auth");
    expect(rack.servers.get("guarded").signIn?.signedIn).toBe(false);
  });
});

describe("two processes on one store", () => {
  async function both(scene: Scene): Promise<UpstreamRack> {
    await scene.open();
    const other = await UpstreamRack.create(scene.rack.directory);
    await other.open({ guarded: { url: scene.authority.url } });
    await other.until("guarded", "needs-auth");
    return other;
  }

  it("follow a sign-in and a sign-out of each other", async () => {
    await using scene = await Scene.set();
    const other = await both(scene);
    const following = other.store.follower.follow("registry", {
      version: () => other.store.registryVersion.read(),
      refresh: () => other.servers.refresh(),
      failed: (error) => expect.unreachable(String(error)),
    });
    try {
      await scene.signIn();
      await other.until("guarded", "ready");
      expect(other.servers.get("guarded").signIn).toMatchObject({ signedIn: true });
      expect(await other.call("mcp_guarded_echo", { text: "in" })).toMatchObject({ content: "in" });
      expect(scene.authority.grants).toEqual(["authorization_code"]);
      await scene.rack.servers.logout("guarded");
      await other.until("guarded", "needs-auth");
      expect(other.servers.get("guarded").signIn).toMatchObject({ signedIn: false });
    } finally {
      await following.stop();
      await other.close();
    }
  });

  it("have the token taken back that counts, whichever of them signs out", async () => {
    await using scene = await Scene.set();
    const { authority } = scene;
    const other = await both(scene);
    try {
      await scene.signIn();
      await other.servers.refresh();
      await other.until("guarded", "ready");
      authority.endAccessTokens();
      expect(await scene.echo("renewed")).toMatchObject({ content: "renewed" });
      expect(authority.grants).toEqual(["authorization_code", "refresh_token"]);
      expect(await other.servers.logout("guarded")).toMatchObject({ revoked: true });
      expect(authority.revoked.toSorted()).toEqual(authority.given.slice(-2).toSorted());
      expect(await other.secrets.list()).toEqual([]);
    } finally {
      await other.close();
    }
  });

  it("that renew at the same time leave the token that was given", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    const other = await both(scene);
    try {
      await scene.signIn();
      await other.servers.refresh();
      await other.until("guarded", "ready");
      // The one that is given the new token writes it only after the other was refused with the old one.
      const refused = Promise.withResolvers<void>();
      const replace = rack.secrets.replace.bind(rack.secrets);
      vi.spyOn(rack.secrets, "replace").mockImplementation(async (...given) => {
        await refused.promise;
        return replace(...given);
      });
      authority.endAccessTokens();
      const first = scene.echo("first");
      await rack.eventually(() => authority.grants.includes("refresh_token"), "the first has renewed");
      const reads = vi.spyOn(other.secrets, "get");
      const second = other.call("mcp_guarded_echo", { text: "second" });
      // Once before it tries to renew, and again when that was refused.
      await rack.eventually(() => reads.mock.calls.length > 1, "the second looks for another token");
      expect(authority.grants).toEqual(["authorization_code", "refresh_token", "refresh_token"]);
      refused.resolve();
      expect(await first).toMatchObject({ content: "first" });
      expect(await second).toMatchObject({ content: "second" });
      expect((await rack.secrets.list()).map(({ name }) => name)).toEqual(["mcp-oauth.guarded"]);
    } finally {
      await other.close();
    }
  });

  it.each([
    ["is refused", "beforeToken", {}],
    ["is refused", "afterToken", {}],
    ["ends", "afterToken", { seconds: 3 }],
  ] as const)(
    "stay signed out when one signs out while the other renews a token that %s (%s)",
    async (why, when, options) => {
      await using scene = await Scene.set(options);
      const { rack, authority } = scene;
      const other = await both(scene);
      try {
        await scene.signIn();
        const { asked, give } = hold(authority, when);
        if (why === "is refused") authority.endAccessTokens();
        const call = why === "is refused" ? scene.echo("late") : undefined;
        await asked;
        // The other one knows of the sign-in by the store alone.
        expect(await other.servers.logout("guarded")).toMatchObject({ revoked: true });
        give();
        await call;
        await rack.until("guarded", "needs-auth");
        expect(rack.servers.get("guarded").signIn).toEqual({ signedIn: false, pending: false });
        expect(await other.secrets.get("mcp-oauth.guarded")).toBeUndefined();
        expect(authority.revoked.toSorted()).toEqual(authority.given.toSorted());
      } finally {
        await other.close();
      }
    },
  );
});

describe("a client that was registered by hand", () => {
  const client = { id: "rack", secret: "s3cret-of-the-rack" };
  const oauth = (issuer: string) => ({
    // biome-ignore lint/suspicious/noTemplateCurlyInString: this is how an entry refers to a secret.
    oauth: { clientId: "rack", clientSecret: "${secret:RACK}", issuer },
  });

  it("signs in with its secret, and is renewed with it", async () => {
    await using scene = await Scene.set({ client, registers: false });
    const { rack, authority } = scene;
    await rack.secrets.set("RACK", client.secret);
    await scene.open(oauth(authority.origin));
    await scene.signIn();
    authority.endAccessTokens();
    expect(await scene.echo("again")).toMatchObject({ content: "again" });
    expect(JSON.stringify(rack.servers.get("guarded"))).not.toContain(client.secret);
  });

  it("sends its secret to no other authorization server", async () => {
    await using scene = await Scene.set({ client, registers: false });
    const { rack, authority } = scene;
    await rack.secrets.set("RACK", client.secret);
    await scene.open(oauth("https://login.example.com"));
    await rack.until("guarded", "needs-auth");
    await expect(rack.servers.login("guarded", CALLBACK)).rejects.toThrow(/came to nothing/);
    expect(authority.grants).toEqual([]);
  });

  it("as a machine gets a further scope that a tool needs after a restart", async () => {
    const guarded = { tool: "grow", scope: "write" };
    await using scene = await Scene.set({ client, registers: false, guarded });
    const { rack, authority } = scene;
    await rack.secrets.set("RACK", client.secret);
    await scene.open({ oauth: { ...oauth(authority.origin).oauth, grant: "client_credentials" } });
    await rack.until("guarded", "ready");
    expect((await rack.call("mcp_guarded_grow")).content).toMatch(/mcp-servers restart guarded/);
    await rack.servers.restart("guarded");
    expect((await rack.call("mcp_guarded_grow")).type).not.toBe("error");
  });

  it("as a machine needs nobody to sign in, and gets new tokens by itself", async () => {
    await using scene = await Scene.set({ client, registers: false });
    const { rack, authority } = scene;
    await rack.secrets.set("RACK", client.secret);
    const { oauth: known } = oauth(authority.origin);
    await scene.open({ oauth: { ...known, grant: "client_credentials" } });
    await rack.until("guarded", "ready");
    authority.endAccessTokens();
    expect(await scene.echo("again")).toMatchObject({ content: "again" });
    expect(authority.grants).toEqual(["client_credentials", "client_credentials"]);
    for (const token of authority.given) expect([...rack.secrets.values()]).toContain(token);
  });
});

describe("a rack that says at an address of its own who it is", () => {
  const document = "https://rack.example.com/who-we-are.json";
  const documents = { [document]: [`${CALLBACK}/guarded`] };
  const oauth = { clientMetadataUrl: document };

  it("calls itself by that address where such addresses are read, and registers nowhere", async () => {
    await using scene = await Scene.set({ documents });
    const { rack, authority } = scene;
    await scene.open({ oauth });
    await scene.signIn();
    expect(await scene.echo("in")).toMatchObject({ content: "in" });
    authority.endAccessTokens();
    expect(await scene.echo("renewed")).toMatchObject({ content: "renewed" });
    expect(authority.askers).toEqual([document, document]);
    expect(authority.grants).toEqual(["authorization_code", "refresh_token"]);
    expect(authority.registrations).toBe(0);
    expect(await rack.servers.logout("guarded")).toMatchObject({ revoked: true });
  });

  it("is known by it also where it had registered itself before", async () => {
    await using scene = await Scene.set({ documents });
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    expect(authority.askers).toEqual(["client-1"]);
    await rack.writeFile({ mcpServers: { guarded: { url: authority.url, toolrack: { oauth } } } });
    await rack.servers.reload();
    await rack.until("guarded", "ready");
    // What was given to the client of before is renewed by it.
    authority.endAccessTokens();
    expect(await scene.echo("renewed")).toMatchObject({ content: "renewed" });
    expect(authority.askers).toEqual(["client-1", "client-1"]);
    const { url } = await rack.servers.login("guarded", CALLBACK);
    expect(new URL(url).searchParams.get("client_id")).toBe(document);
    await rack.servers.finishLogin("guarded", await scene.agree(url));
    expect(authority.askers.at(-1)).toBe(document);
  });

  it("registers itself where such addresses are not read", async () => {
    await using scene = await Scene.set();
    await scene.open({ oauth });
    await scene.signIn();
    expect(scene.authority.askers).toEqual(["client-1"]);
  });

  it("is the client that was registered by hand only where such addresses are not read", async () => {
    const client = { id: "by-hand", secret: "hand-made" };
    const named = { ...oauth, clientId: client.id, clientSecret: client.secret };
    await using without = await Scene.set({ client, registers: false });
    await without.open({ oauth: { ...named, issuer: without.authority.origin } });
    await without.signIn();
    expect(without.authority.askers).toEqual([client.id]);
    await using scene = await Scene.set({ client, documents, registers: false });
    const { authority } = scene;
    await scene.open({ oauth: { ...named, issuer: authority.origin } });
    await scene.signIn();
    authority.endAccessTokens();
    expect(await scene.echo("renewed")).toMatchObject({ content: "renewed" });
    expect(authority.askers).toEqual([document, document]);
  });

  it.each([
    "https://rack.example.com/",
    "https://rack.example.com",
    "https://me:you@a.com/b",
    "https://a.com/b#c",
  ])("has failed when the address is %s", async (clientMetadataUrl) => {
    await using scene = await Scene.set({ documents });
    await scene.open({ oauth: { clientMetadataUrl } });
    await scene.rack.until("guarded", "failed");
    expect(scene.rack.servers.get("guarded").reason).toMatch(
      /mcp\.json: guarded\.toolrack\.oauth\.clientMetadataUrl must be the address of a document/,
    );
  });
});

describe("signing out while tokens are on their way", () => {
  async function isForgotten({ rack, authority }: Scene): Promise<void> {
    expect(rack.servers.get("guarded").signIn).toMatchObject({ signedIn: false });
    expect(await rack.secrets.get("mcp-oauth.guarded")).toBeUndefined();
    expect(authority.revoked).toEqual(expect.arrayContaining(authority.given.slice(-2)));
  }

  it("forgets those that a renewal brings, and gives them back", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await scene.signIn();
    const { asked, give } = hold(authority);
    authority.endAccessTokens();
    const call = scene.echo("late");
    await asked;
    const out = rack.servers.logout("guarded");
    give();
    await Promise.all([out, call]);
    await isForgotten(scene);
  });

  it("forgets those that a person has just signed in for, and gives them back", async () => {
    await using scene = await Scene.set();
    const { rack, authority } = scene;
    await scene.open();
    await rack.until("guarded", "needs-auth");
    const { asked, give } = hold(authority);
    const { url } = await rack.servers.login("guarded", CALLBACK);
    const finished = rack.servers.finishLogin("guarded", await scene.agree(url));
    await asked;
    const out = rack.servers.logout("guarded");
    give();
    await Promise.all([out, finished]);
    await isForgotten(scene);
  });
});
