import type { Attempt } from "./attempt.fixture.ts";

const read = `const read = (socket) => new Promise((done, fail) => { let text = ""; socket.on("data", (chunk) => { text += chunk }); socket.on("end", () => done(text)); socket.on("error", fail); setTimeout(() => fail(new Error("nothing came")), 1500) });`;

export const networkAttempts: readonly Attempt[] = [
  {
    name: "connect to a port of the host",
    worksOutside: true,
    body: `${read} return read(require("net").connect(trap.tcpPort, "127.0.0.1"))`,
  },
  {
    name: "connect to a port of the host by IPv6",
    body: `${read} return read(require("net").connect(trap.tcpPort, "::ffff:127.0.0.1"))`,
  },
  {
    name: "connect to a unix socket of the host",
    worksOutside: true,
    body: `${read} return read(require("net").connect(trap.unixSocket))`,
  },
  {
    name: "connect to an abstract socket of the host",
    worksOutside: true,
    body: `${read} return read(require("net").connect({ path: trap.abstractSocket }))`,
  },
  {
    name: "fetch from the host",
    worksOutside: true,
    body: `return (await fetch("http://127.0.0.1:" + trap.httpPort)).text()`,
  },
  {
    name: "ask the host with node:http",
    worksOutside: true,
    body: `return new Promise((done, fail) => require("http").get("http://127.0.0.1:" + trap.httpPort, (response) => { let text = ""; response.on("data", (chunk) => { text += chunk }).on("end", () => done(text)) }).on("error", fail))`,
  },
  {
    name: "connect with TLS",
    body: `return new Promise((done, fail) => require("tls").connect(trap.tcpPort, "127.0.0.1", done).on("error", fail))`,
  },
  {
    name: "connect with HTTP/2",
    body: `return new Promise((done, fail) => require("http2").connect("http://127.0.0.1:" + trap.tcpPort).on("connect", () => done("connected")).on("error", fail))`,
  },
  {
    name: "open a WebSocket to the host",
    worksOutside: true,
    body: `return new Promise((done) => { const socket = new WebSocket("ws://127.0.0.1:" + trap.httpPort); socket.onerror = () => done("error"); socket.onopen = () => done("open") })`,
  },
  {
    name: "send a datagram to the host",
    worksOutside: true,
    body: `return new Promise((done, fail) => { const socket = require("dgram").createSocket("udp4"); socket.on("error", fail); socket.send("x", trap.udpPort, "127.0.0.1", (error) => { socket.close(); setTimeout(done, 100, error ? "failed" : "sent") }) })`,
  },
  {
    name: "ask a name server of its choice",
    worksOutside: true,
    body: `const { Resolver } = require("dns").promises; const resolver = new Resolver({ timeout: 200, tries: 1 }); resolver.setServers(["127.0.0.1:" + trap.udpPort]); return resolver.resolve4("secret.example").catch((error) => error.code)`,
  },
  {
    name: "look a name up",
    body: `return (await require("dns").promises.lookup("localhost")).address && (await require("dns").promises.resolve4("example.com"))`,
  },
  {
    name: "send out of a socket made from a descriptor",
    body: `for (let fd = 5; fd < 40; fd++) { try { const socket = new (require("net").Socket)({ fd, writable: true }); socket.on("error", () => {}); socket.write("GET http://127.0.0.1:" + trap.httpPort + "/ HTTP/1.0\\r\\n\\r\\n") } catch {} } return "written"`,
  },
  {
    name: "reach the host by the address of its network",
    body: `const addresses = Object.values(require("os").networkInterfaces()).flat().map((entry) => entry.address); const texts = []; for (const address of [...addresses, "172.17.0.1", "10.0.2.2"]) { try { texts.push(await (await fetch("http://" + address + ":" + trap.httpPort, { signal: AbortSignal.timeout(300) })).text()) } catch {} } return texts`,
  },
];

/** Tried by a program, as Node itself makes no such sockets. */
export interface ProgramAttempt {
  readonly name: string;
  /** Perl, which nearly every Linux has: it prints ESCAPED, or ends with the reason of the kernel. */
  readonly code: string;
}

const open = (family: number, type: number) =>
  `socket(my $socket, ${family}, ${type}, 0) or die "$!\\n"; print "ESCAPED"`;
const call = (...words: readonly (number | string)[]) =>
  `syscall(${words.join(", ")}) >= 0 or die "$!\\n"; print "ESCAPED"`;
const numbersOfSocket: Readonly<Record<string, number>> = { x64: 41, arm64: 198 };
const socketNumber = numbersOfSocket[process.arch] ?? 41;

export const programAttempts: readonly ProgramAttempt[] = [
  { name: "make a socket to the host of the virtual machine (AF_VSOCK)", code: open(40, 1) },
  { name: "make a socket to the host by the number of the call", code: call(socketNumber, 40, 1, 0) },
  { name: "make a socket of the kernel's cryptography (AF_ALG)", code: open(38, 5) },
  { name: "make a socket of raw packets (AF_PACKET)", code: open(17, 3) },
  { name: "make a socket of the network's card (AF_XDP)", code: open(44, 3) },
  { name: "make a socket between clusters (AF_TIPC)", code: open(30, 1) },
  { name: "make a socket by the second numbering", code: call(0x40000000 + socketNumber, 2, 1, 0) },
  { name: "open a ring of calls past the filter", code: `my $p = "\\0" x 120; ${call(425, 1, "$p")}` },
];
