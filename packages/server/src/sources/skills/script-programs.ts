/**
 * What runs inside the sandbox to call a function of a skill's module. The request comes on standard input as JSON:
 * `{marker, method, file, toolName, params, context}`. The answer is the line that begins with the marker, which nobody
 * but the host knows before, so that whatever the module prints is only noise.
 */
export const nodeProgram = `
const { readFileSync } = require("node:fs");
const Module = require("node:module");
const { dirname, resolve } = require("node:path");
const { pathToFileURL } = require("node:url");
// By what it says itself: a package.json somewhere above the skill must not decide how it is read.
async function load(path) {
  const source = path.endsWith(".js") ? readFileSync(path, "utf8") : "";
  const isCommon = /\\bexports\\b/.test(source) && !/^\\s*(?:import|export)\\b/m.test(source);
  if (!isCommon) return import(pathToFileURL(path).href);
  const module = new Module(path);
  module.filename = path;
  module.paths = Module._nodeModulePaths(dirname(path));
  module._compile(source, path);
  return module.exports;
}
const chunks = [];
process.stdin.on("data", (chunk) => chunks.push(chunk)).on("end", async () => {
  const { marker, method, file, toolName, params, context } = JSON.parse(Buffer.concat(chunks).toString());
  const plain = (_key, value) => (typeof value === "bigint" ? String(value) : value);
  const answer = (message) =>
    process.stdout.write("\\n" + marker + JSON.stringify(message, plain) + "\\n", () => process.exit(0));
  try {
    const loaded = await load(resolve(file));
    const candidates = [loaded, loaded.default, loaded.default?.default];
    const owner = candidates.find((one) => typeof one?.[method] === "function");
    if (owner === undefined) throw new Error(file + " exports no function " + method + ".");
    const value = await (method === "getTools" ? owner.getTools() : owner.execute(toolName, params, context));
    answer({ value: value === undefined ? null : value });
  } catch (error) {
    answer({ error: { message: String(error?.message ?? error), stack: String(error?.stack ?? "") } });
  }
});`;

export const pythonProgram = `
import asyncio, importlib.util, inspect, json, math, os, sys, traceback
request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
out = os.fdopen(os.dup(1), "w", encoding="utf-8")
def plain(value):
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, (list, tuple)) else value
def answer(message):
    try:
        text = json.dumps(message, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        # What JSON has no word for is null, as in JavaScript.
        text = json.dumps(plain(json.loads(json.dumps(message, default=str))), ensure_ascii=False)
    out.write("\\n" + request["marker"] + text + "\\n")
    out.flush()
    os._exit(0)
try:
    path = os.path.abspath(request["file"])
    sys.path.insert(0, os.path.dirname(path))
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("skill", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    snake = {"getTools": "get_tools"}.get(request["method"], request["method"])
    function = getattr(module, request["method"], None) or getattr(module, snake, None)
    if function is None:
        raise Exception(request["file"] + " has no function " + request["method"] + ".")
    if request["method"] == "getTools":
        value = function()
    else:
        value = function(request["toolName"], request["params"], request["context"])
    if inspect.isawaitable(value):
        async def wait(): return await value
        value = asyncio.run(wait())
    answer({"value": value})
except SystemExit as error:
    message = request["file"] + " ended with sys.exit(" + repr(error.code) + ") instead of returning a value."
    answer({"error": {"message": message, "stack": traceback.format_exc()}})
except BaseException as error:
    answer({"error": {"message": str(error) or type(error).__name__, "stack": traceback.format_exc()}})
`;
