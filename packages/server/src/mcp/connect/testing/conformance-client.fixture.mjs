// What the conformance suite starts as the client: it passes the scenario on to the test, whose rack is the client, and
// waits for its end. The suite puts the address of its server behind the other arguments.
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = "{}" } = process.env;
const [, , test, url] = process.argv;
const body = JSON.stringify({ scenario, context: JSON.parse(context), url });
const response = await fetch(test, { method: "POST", body });
console.log(await response.text());
process.exitCode = response.ok ? 0 : 1;
