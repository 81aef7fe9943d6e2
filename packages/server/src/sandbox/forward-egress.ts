/** The unix socket of the egress proxy inside a sandbox, and the port where clients in it look for a proxy. */
export interface EgressAddress {
  readonly socketPath: string;
  readonly port: number;
}

/** What clients in the sandbox are told. The port is one of the sandbox's own loopback. */
export function egressEnvironment({ port }: EgressAddress): Record<string, string> {
  const proxy = `http://127.0.0.1:${port}`;
  return {
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: proxy,
    HTTPS_PROXY: proxy,
    http_proxy: proxy,
    https_proxy: proxy,
  };
}

/**
 * Runs inside the sandbox, where only its text arrives: it uses its arguments and Node, and nothing of this module.
 * Clients take a proxy from the environment, which knows no unix sockets; hence a port that leads to the socket.
 */
export function forwardEgress(
  { socketPath, port }: EgressAddress,
  onRefusal: (text: string) => void,
  onListening: () => void,
): void {
  const net = process.getBuiltinModule("node:net");
  // Loaded now, because they read the environment when they are loaded. Clients of other make that would read it too
  // go through these; left to themselves some of them send https in plain.
  process.getBuiltinModule("node:http");
  process.getBuiltinModule("node:https");
  for (const name of Object.keys(process.env)) if (/proxy/i.test(name)) delete process.env[name];
  const server = net.createServer((client) => {
    const upstream = net.connect(socketPath);
    upstream.once("data", (chunk) => {
      const text = chunk.toString("latin1");
      if (text.includes("\r\nx-toolrack-egress: refused\r\n"))
        onRefusal(text.slice("HTTP/1.1 403 ".length, text.indexOf("\r\n")));
    });
    client.pipe(upstream).pipe(client);
    client.on("error", () => upstream.destroy());
    upstream.on("error", () => client.destroy());
  });
  server.listen(port, "127.0.0.1", onListening);
  server.unref();
}
