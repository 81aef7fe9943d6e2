import { language } from "./i18n.ts";

/**
 * What the server says in English, in Chinese: by the stable code of what it says, and with the values that come with the
 * code. In English, and for what has no code, the server's own text is shown. Texts of tool authors stay as they are.
 */
const isChinese = () => language.value === "zh-CN";

type Details = Readonly<Record<string, unknown>>;

export interface CodedError {
  readonly code: string;
  readonly message: string;
  readonly details?: Details | undefined;
}

/** The error of a call in the language of the console; undefined where the server's text is to be shown. */
export function callErrorText({ code, details = {} }: CodedError): string | undefined {
  return isChinese() ? callErrors[code]?.(details) : undefined;
}

/** What is wrong with an argument. */
export function issueText({ expected, received, message }: Details): string {
  if (!isChinese() || text(expected) === "" || text(received) === "") return text(message);
  return received === "nothing" ? `缺少，应为 ${expected}` : `应为 ${expected}，实际为 ${received}`;
}

/** A refusal by the server in the language of the console; undefined where the server's text is to be shown. */
export function refusalText(code: string): string | undefined {
  return isChinese() ? refusals[code] : undefined;
}

/** What lint finds, and how to settle it. */
export function findingText(finding: {
  readonly code: string;
  readonly reason: string;
  readonly remedy: string;
  readonly parameters?: readonly string[] | undefined;
  readonly twin?: string | undefined;
}): { readonly reason: string; readonly remedy: string } {
  const found = isChinese() ? findings[finding.code] : undefined;
  if (found === undefined) return finding;
  const names = (finding.parameters ?? []).map((name) => `\`${name}\``).join("、");
  const [reason, remedy] = found;
  const fill = (text: string) =>
    text.replace("{parameters}", names).replace("{twin}", `\`${finding.twin ?? ""}\``);
  // A text without values of its own would lose the server's: numbers, the words in question, the providers.
  const isWhole = reason !== fill(reason) || finding.code === "description_missing";
  return { reason: isWhole ? fill(reason) : `${reason}\n\n${finding.reason}`, remedy };
}

/** Why a tool file does not load, and how to fix it. What the compiler or the file itself said is added as it is. */
export function fileFailureText(failure: {
  readonly code?: string | undefined;
  readonly reason: string;
  readonly remedy: string;
}): { readonly reason: string; readonly remedy: string } {
  const found = isChinese() && failure.code !== undefined ? fileFailures[failure.code] : undefined;
  if (found === undefined) return failure;
  const [reason, remedy] = found;
  return { reason: `${reason}\n${failure.reason}`, remedy };
}

/** A reason of the server with its code, and with the values in it. */
interface Reason {
  readonly reason?: string | undefined;
  readonly code?: string | undefined;
  readonly details?: Details | undefined;
}

/** Why an MCP server or an API is not ready. What it said or wrote itself is added as it is. */
export function serverReasonText(server: {
  readonly reason?: string | undefined;
  readonly reasonCode?: string | undefined;
  readonly reasonDetails?: Details | undefined;
}): string | undefined {
  const { reason, reasonCode: code, reasonDetails: details = {} } = server;
  const wrote = text(details.wrote) === "" ? "" : `\n它的输出：${text(details.wrote)}`;
  return reasonText({ reason, code, details }, serverReasons, wrote);
}

/** Why the folder of a skill cannot be used. */
export function skillReasonText(failed: Reason): string | undefined {
  const rest = failed.details?.isServed === true ? "\n修正之前，继续使用最后一个可用的版本。" : "";
  return reasonText(failed, skillReasons, rest);
}

/** Why the isolation of a sandboxed tool is not full. */
export function isolationText(isolation: Reason): string | undefined {
  const { required, level2, isRoot } = isolation.details ?? {};
  const first =
    required === undefined ? "" : `配置要求隔离级别 ${required}（sandbox.require），本服务器为级别 2。`;
  const begin = level2 === undefined ? first : "这里无法隔离。";
  const other =
    isRoot === true
      ? ""
      : "服务器不是 root，工具与服务器同属一个用户：它可以用信号停止服务器和该用户的其他程序，并打开该用户其他 Node 程序（服务器除外）的调试器。";
  const rest =
    level2 === undefined
      ? `级别 2 只靠 Node 自己的权限约束工具，拦不住利用 Node 漏洞的工具。${other}`
      : `级别 2 也不可用：${level2}`;
  const found = reasonText(isolation, isolationReasons, rest);
  return found === isolation.reason ? found : `${begin}${found}`;
}

function reasonText(
  { reason, code = "", details = {} }: Reason,
  texts: Texts,
  rest: string,
): string | undefined {
  const found = isChinese() ? texts[code]?.(details) : undefined;
  return found === undefined ? reason : `${found}${rest}`;
}

/** Why a tool of a skill cannot be used: what is wrong with its definition. */
export function toolFailureText(failure: string): string {
  return isChinese() ? `工具的定义不可用：\n${failure}` : failure;
}

const text = (value: unknown) => (typeof value === "string" ? value : "");
const list = (value: unknown) => (Array.isArray(value) ? value.map(String).join("、") : "");
const seconds = (value: unknown) => `${Number((Number(value) / 1_000).toFixed(1))} 秒`;

type Texts = Readonly<Record<string, (details: Details) => string | undefined>>;

/** Errors of calls. A tool's own failure (`execution_failed`, `business_error`) is in its author's words. */
const callErrors: Texts = {
  tool_not_found: ({ toolName, suggestions }) =>
    `没有名为“${text(toolName)}”的工具。${list(suggestions) === "" ? "" : `最接近的名称：${list(suggestions)}。`}`,
  tool_disabled: ({ toolName }) => `工具“${text(toolName)}”已被停用，没有运行。`,
  invalid_arguments: ({ toolName, issues }) => {
    if (!Array.isArray(issues) || issues.length === 0) return undefined;
    const lines = issues.map((issue) => `- ${text(issue.path) || "参数"}：${issueText(issue)}`);
    return `“${text(toolName)}”的参数不符合其模式，工具没有运行：\n${lines.join("\n")}`;
  },
  permission_denied: ({ toolName, missing }) =>
    list(missing) === ""
      ? undefined
      : `工具“${text(toolName)}”需要权限 ${list(missing)}，该调用方没有，工具没有运行。`,
  loop_blocked: ({ toolName }) => `会话在重复自己而没有进展，因此没有运行“${text(toolName)}”。`,
  timed_out: ({ toolName, kind, limit }) =>
    limit === undefined
      ? undefined
      : `工具“${text(toolName)}”${kind === "idle" ? `在 ${seconds(limit)}内没有任何进展` : `未能在 ${seconds(limit)}内完成`}，已被停止。它已做的部分可能仍然有效，再次调用前请先确认。`,
  cancelled: ({ toolName, reason }) =>
    `对“${text(toolName)}”的调用已取消${text(reason) === "" ? "。" : `：${text(reason)}`}`,
  code_diverged: ({ line }) =>
    `中断后再次运行的代码走了与之前不同的路${line === undefined ? "" : `（第 ${String(line)} 行）`}，在做任何新的事情之前已被停止。`,
  outcome_unknown: () =>
    "运行该工具的进程在调用结束前退出。工具可能做了全部、部分或没有做任何工作，不会自动重新运行。",
};

/** Refusals of the HTTP API that the console has no text of its own for in both languages. */
const refusals: Readonly<Record<string, string>> = {
  bad_request: "无法读取该请求。",
  invalid_json: "正文不是 UTF-8 编码的 JSON。",
  invalid_request: "请求的路径、查询或正文不符合要求。",
  not_code: "该调用没有运行代码，或其代码不能成为工具。",
  code_off: "配置中关闭了代码模式。",
  tool_file_exists: "已有该名称的工具文件。",
  node_not_found: "没有该 ID 的节点，或它没有响应。",
  result_missing: "记录的一部分（例如完整的长结果）已不在保存的位置：被删除，或其存储已丢失。",
  mcp_server_invalid: "MCP 服务的键或配置不可用。",
  provider_refused: "模型服务不接受该请求。",
  secret_invalid: "名称或值不能用作机密。",
  setting_invalid: "名称或值不能用作设置，或该名称属于机密。",
  unauthorized: "没有令牌，或令牌未知、已过期。",
  chat_forbidden: "该令牌不能使用模型，或该对话属于另一个令牌。",
  host_not_allowed: "服务器不为该主机名提供服务。",
  origin_not_allowed: "请求来自另一个来源的页面。",
  permission_denied: "缺少该工具需要的权限。",
  approval_denied: "有人或规则拒绝了它，或无人及时答复。",
  not_found: "该路径下没有内容。",
  tool_not_found: "没有该名称的工具，或该令牌看不到它。",
  call_not_found: "没有该 ID 的调用，或该令牌看不到它。",
  approval_not_found: "没有该 ID 的审批。",
  loop_not_found: "最近 24 小时内，没有该名称的会话陷入循环。",
  approval_rule_not_found: "没有该 ID 的审批规则。",
  mcp_server_not_found: "没有该键的 MCP 服务。",
  mcp_tool_not_found: "该 MCP 服务没有这个名称的工具。",
  schedule_not_found: "没有该 ID 的定时任务，或该令牌看不到它。",
  prompt_not_found: "没有该名称的提示词，或该令牌不能使用它。",
  resource_not_found: "没有该 URI 的资源，或该令牌不能读取它。",
  skill_not_found: "没有该 ID 或名称的技能。",
  skill_tool_not_found: "该技能没有这个 ID 或名称的工具。",
  expert_not_found: "没有该名称或 ID 的专家，或该令牌不能使用它。",
  model_not_found: "没有模型服务提供该名称的模型。",
  chat_session_not_found: "没有该 ID 的对话，或该令牌看不到它。",
  response_not_found: "没有该 ID 的回答，或该令牌看不到它。",
  token_not_found: "没有该 ID 的令牌。",
  secret_not_found: "没有该名称的机密。",
  setting_not_found: "没有该名称的设置。",
  search_not_found: "没有该 ID 的搜索记录，或该令牌看不到它。",
  data_not_found: "没有该名称的沙箱工具或技能保存过文件。",
  method_not_allowed: "该路径不支持这种方法。",
  request_timeout: "请求没有及时到达。",
  mcp_server_exists: "已有使用该键的 MCP 服务。",
  mcp_server_read_only: "该 MCP 服务写在工作区的文件里，请在那里修改。",
  mcp_tool_changed: "该工具在查看之后又有变化，因此没有批准。",
  call_exists: "已有使用该 callId 的调用。",
  call_unwritable: "该调用无法写成测试。",
  result_elsewhere: "完整的结果在另一个节点上，或已被删除；记录中有其开头部分。",
  call_running: "该调用尚未结束，还没有结果。",
  arguments_redacted: "记录中的部分参数已被遮盖，需给出新的参数才能重复该调用。",
  chat_cancelled: "同样的请求刚刚已经发起过调用，不会重复执行。",
  approval_elsewhere: "提问的调用在另一个节点上等待，来不及得知答复。",
  schedule_ended: "该定时任务已经结束、被取消，或不处于可更改的状态。",
  skill_read_only: "该技能位于文件夹中，请在那里修改。",
  tool_disabled: "该工具已被停用。",
  loop_blocked: "该会话在重复自己而没有进展。",
  unsupported_media_type: "正文不是以 application/json 发送的。",
  expectation_failed: "服务器不支持请求中的 Expect 头。",
  headers_too_large: "请求头超过了服务器的上限。",
  invalid_arguments: "参数不符合工具的模式。",
  too_many_calls: "该工具同时运行的次数已达上限。",
  busy: "等待该工具所属通道的工作进程的调用已达上限。",
  provider_busy: "模型服务暂时不再接受请求。",
  offering_failed: "该提示词或资源出错。",
  provider_failed: "模型服务出错，或无法访问。",
  mcp_sign_in_failed: "该 MCP 服务或其登录服务不允许登录。",
  provider_unauthorized: "模型服务不接受所配置的密钥。",
  provider_missing: "没有配置模型服务，或未设置其密钥。",
};

/** Why, and what to do, by the rule of lint. */
const findings: Readonly<Record<string, readonly [reason: string, remedy: string]>> = {
  description_missing: [
    "它没有说明，模型只能凭名称来选择。",
    "用一两句话说明它做什么、何时使用、返回什么，用词要与人们提问时一致。",
  ],
  description_vague: [
    "它的说明没有提供多少信息。",
    "用一两句话说明它做什么、何时使用、返回什么，用词要与人们提问时一致。",
  ],
  parameter_undescribed: [
    "这些参数没有说明：{parameters}。",
    "在模式中为每个参数写上说明：含义、格式，以及一个例子，如“2026-07-28”。",
  ],
  parameter_vague: [
    "这些参数的说明并不比名称说得更多：{parameters}。",
    "写出名称说不清的内容：格式、单位、值从哪里来、不填会怎样。",
  ],
  near_twin: ["模型会把它与 {twin} 混淆。", "在两者的说明中写清各自何时使用。"],
  unknown_id: [
    "它要求的 {parameters} 是模型无从得知的 ID：没有其他工具能列出或查到。",
    "添加一个能列出这些 ID 的工具，改用名称，或在参数说明中写明它从哪里来。",
  ],
  strict_lost: [
    "它无法使用 OpenAI 的严格模式（让参数总是符合模式）。",
    "写明每个值的类型，列出每个对象的键，让各分支结构一致并有一个用来区分的键；如果本就要保持开放，请说明可以填什么。",
  ],
  provider_loss: [
    "有些模型服务收不到它的全部内容。",
    "在参数说明中写出来，或改写模式。无论如何，参数都会按完整的模式检查。",
  ],
  name_long: [
    "模型或 MCP 客户端无法照原样使用它的名称。",
    "请只用字母、数字、_ 和 -，最多 49 个字符；上游服务的工具用配置中的 `rename` 改名。",
  ],
  tokens_high: [
    "它的定义在每次请求模型时都会占用很多 Token。",
    "缩短文字，去掉工具自己会检查的内容，或拆成各做一件事的工具。上限是 lint.maxTokens。",
  ],
  annotations_contradict: [
    "它对自己的描述互相矛盾。",
    "在工具的 metadata 中写明实情；上游服务的工具用配置中的 `annotations`。",
  ],
  destructive_unmarked: [
    "它看起来有破坏性，却没有标为危险，因此不会询问任何人就运行。",
    "写上 metadata: { dangerous: true }；如果不破坏任何东西，写 { readOnly: true }；上游服务的工具在配置的 `ask` 中列出。",
  ],
};

const fileFailures: Readonly<Record<string, readonly [reason: string, remedy: string]>> = {
  syntax: ["文件的语法有误：", "更正这一行的语法。"],
  not_installed: ["文件导入的包没有安装：", "在工作区中用 npm install 安装这个包。"],
  threw: ["文件在加载时抛出了错误：", "更正文件顶层运行的代码。"],
  no_tool: ["文件没有导出工具：", "导出带 handler 的对象、带默认函数的 schema，或由 Tool.define 创建的值。"],
};

const serverReasons: Texts = {
  secret_missing: ({ place, name }) =>
    `${text(place)} 用到机密“${text(name)}”，但它没有设置。设置它：toolrack secrets set ${text(name)}`,
  setting_missing: ({ place, name }) =>
    `${text(place)} 用到设置“${text(name)}”，但它没有设置。设置它：toolrack settings set ${text(name)}=VALUE`,
  variable_missing: ({ place, name }) =>
    `${text(place)} 用到环境变量 ${text(name)}，但它没有设置。请在环境或 .env 中设置，或写成 \${${text(name)}:-default}。`,
  entry_unusable: ({ said }) => `它的配置不可用，请修改：\n${text(said)}`,
  circle: ({ said }) => `它会绕回到这个 Toolrack 自身，因此没有连接：\n${text(said)}`,
  credentials_wanted: ({ said, key, canSignIn }) =>
    canSignIn === true
      ? `它要求凭据。请在此页面登录，或运行 toolrack mcp-servers login ${text(key)}；使用固定令牌的服务，请在配置中加入请求头 "Authorization": "Bearer …"，令牌存为机密。它的答复：\n${text(said)}`
      : `它不接受所给的凭据。请换成其他凭据（存为机密），然后重启：toolrack mcp-servers restart ${text(key)}。它的答复：\n${text(said)}`,
  package_missing: ({ said }) => `要安装的 npm 包或版本不存在：\n${text(said)}`,
  program_missing: ({ command, said }) =>
    text(command) !== ""
      ? `没有程序“${text(command)}”。请安装它，或写出它的完整路径。`
      : `要启动的程序或要读取的文件不存在，或没有权限。请安装它，或写出完整路径：\n${text(said)}`,
  program_ended: ({ exitCode, signal }) =>
    signal === undefined ? `它的进程已结束，退出码 ${exitCode}。` : `它的进程被 ${text(signal)} 结束。`,
  handshake_slow: ({ limit }) =>
    `它未能在 ${seconds(limit)}内完成握手。如果它由 npx、uvx 之类的程序下载后启动，可能仍在下载，或无法访问下载地址。`,
  unreachable: ({ said }) => `无法连接到它：${text(said)}`,
  refused: ({ said }) => `它拒绝了请求：\n${text(said)}`,
  answer_unusable: ({ said }) => `它的答复无法使用：\n${text(said)}`,
  silent: ({ said }) => `它没有及时答复：\n${text(said)}`,
  unavailable: ({ said }) => `它现在不可用：\n${text(said)}`,
  waits_for_caller: ({ said }) =>
    `它使用每个调用方自己的凭据，因此在第一个有凭据的调用方到来时才读取它的工具。${text(said) === "" ? "" : `\n${text(said)}`}`,
  not_signed_in: ({ key }) =>
    `还没有人在 API“${text(key)}”登录。请在此页面登录，或运行 toolrack apis login ${text(key)}。`,
};

const skillReasons: Texts = {
  name_in_database: ({ name }) => `数据库中已有技能“${text(name)}”，而一个技能只能有一处。请删除其中之一。`,
  name_in_folder: ({ name }) => `另一个文件夹已有技能“${text(name)}”。请给其中之一换个名称。`,
  skill_text_large: () => "SKILL.md 大于 1 MiB。",
  front_matter_endless: () => "SKILL.md 开头的元数据没有结束。请用一行三个短横线（---）结束它。",
  front_matter_invalid: ({ line, said }) => `SKILL.md 开头的元数据不是 YAML（第 ${line} 行）：${text(said)}`,
  front_matter_no_map: () => "SKILL.md 开头的元数据必须是键和值，例如 name: pdf。",
  id_invalid: ({ id }) =>
    `metadata 中的 toolrack-id“${text(id)}”不可用：只能用字母、数字、_ 和 -，最多 64 个字符，且不能是保留的名称。`,
  tools_file_invalid: ({ said }) => `tools.json 有误：\n${text(said)}`,
  module_fails: ({ file, said }) => `${text(file)} 无法加载：\n${text(said)}`,
  unreadable: ({ said }) => `无法读取该技能：\n${text(said)}`,
};

const isolationReasons: Texts = {
  level_2_wanted: () => "配置选择了级别 2。",
  not_linux: ({ platform }) =>
    `级别 3 需要 Linux，这里是 ${text(platform)}。请在 Linux 或 Linux 容器中运行服务器。`,
  bubblewrap_missing: () =>
    "没有安装 bubblewrap。请安装（Debian 和 Ubuntu：apt-get install bubblewrap；Fedora：dnf install bubblewrap；Alpine：apk add bubblewrap），然后重新启动服务器。",
  bubblewrap_fails: ({ said }) =>
    `bubblewrap 已安装，但在这里不起作用：${text(said)}。在容器中，请允许它建立命名空间（Docker：--security-opt seccomp=unconfined --cap-add SYS_ADMIN）；在单独的机器上，请允许用户命名空间（sysctl kernel.unprivileged_userns_clone=1、kernel.apparmor_restrict_unprivileged_userns=0）。`,
};
