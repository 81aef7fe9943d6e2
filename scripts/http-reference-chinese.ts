/** By the English sentence, so that a sentence that changes in the API cannot keep an old translation. */
const translations: Readonly<Record<string, string>> = {
  "Whether the process lives": "进程是否存活",
  "Whether the server takes work": "服务器是否接受工作",
  "Counts and times in the text format of Prometheus": "计数和用时，Prometheus 文本格式",
  "This description": "API 的描述，OpenAPI 3.1",
  "The tool files and what became of each": "工具文件及其各自的情况",
  "Brings the rack in step with the tool files": "按工具文件重新加载",
  "The tools that the token may see": "该令牌可见的工具",
  "One tool with its schemas": "一个工具及其 schema",
  "Switches a tool on or off": "启用或停用一个工具",
  "Calls a tool": "调用一个工具",
  "Recorded calls, newest first": "已记录的调用，最新的在前",
  "One call, under way or ended": "一次调用，进行中或已结束",
  "Cancels a call under way, and the calls it made": "取消进行中的调用及其发起的调用",
  "The whole text of a result, page by page": "结果的全文，逐页读取",
  "Makes a recorded call again": "重新执行一次已记录的调用",
  "Questions that wait for a person, newest first": "等待人回答的问题，最新的在前",
  "One question, and the answer to it": "一个问题及其回答",
  "Answers a question; the first answer counts": "回答一个问题；第一个回答有效",
  "Answers that were given for calls to come": "为以后的调用给出的回答",
  "Answers calls to come": "为以后的调用给出回答",
  "Takes a rule back": "收回一条规则",
  "What is to run later, the soonest first": "之后要运行的任务，最近的在前",
  "Cancels a schedule": "取消一个定时任务",
  "What happens on the rack, as it happens": "实时事件流",
  "The `tools` of a Chat Completions request": "Chat Completions 请求的 `tools`",
  "Runs the calls of an assistant message": "执行一条 assistant 消息中的调用",
  "The request line, the headers or the body could not be read.": "请求行、请求头或请求体无法读取。",
  "The body is not JSON in UTF-8.": "请求体不是 UTF-8 的 JSON。",
  "The path, the query or the body does not fit its schema; `details.issues` lists each place.":
    "路径、查询或请求体不符合 schema；`details.issues` 列出每一处。",
  "There is no token, or it is unknown or has expired.": "没有令牌，或令牌未知或已过期。",
  "The token is valid but not an admin's.": "令牌有效，但不是管理员的。",
  "The Host header names a host that this server does not answer for.":
    "Host 请求头中的主机名不属于这个服务器。",
  "A page of another origin made the request.": "请求来自其他来源的网页。",
  "The tool asks for a permission that callers do not hold.": "工具要求调用方没有的权限。",
  "A person or a policy said no, or nobody answered in time.": "人或策略拒绝了，或没有人及时回答。",
  "There is nothing at this path.": "这个路径上什么也没有。",
  "No tool that this token may see has this name or alias.": "该令牌可见的工具中没有这个名称或别名。",
  "No call that this token may see has this id.": "该令牌可见的调用中没有这个 id。",
  "There is no question with this id.": "没有这个 id 的问题。",
  "There is no approval rule with this id.": "没有这个 id 的审批规则。",
  "No schedule that this token may see has this id.": "该令牌可见的定时任务中没有这个 id。",
  "The path exists, but not for this method; see `Allow`.": "路径存在，但不支持这个方法；见 `Allow`。",
  "The request did not arrive in time.": "请求没有及时到达。",
  "A call with the wanted `callId` exists.": "已有使用这个 `callId` 的调用。",
  "The call has ended and cannot be cancelled any more.": "调用已结束，无法再取消。",
  "The call has not ended and has no result yet.": "调用尚未结束，还没有结果。",
  "Parts of the recorded arguments were masked, so the call cannot be repeated without new ones.":
    "记录的参数有一部分被遮盖，没有新的参数就无法重新执行。",
  "The question was answered, or nobody answered it in time.": "问题已被回答，或没有人及时回答。",
  "The call that asks waits in another process.": "提问的调用在另一个进程中等待。",
  "The schedule has run for the last time, or was cancelled.": "定时任务已最后一次运行，或已被取消。",
  "An operator switched the tool off.": "管理员停用了这个工具。",
  "The session repeats itself without progress.": "会话在没有进展地重复。",
  "The body is larger than the server takes.": "请求体超过服务器接受的大小。",
  "The body is not sent as `application/json`.": "请求体不是以 `application/json` 发送的。",
  "The arguments do not fit the tool's schema; see `details.issues`.":
    "参数不符合工具的 schema；见 `details.issues`。",
  "The token makes more requests than it may; see `Retry-After`.":
    "该令牌的请求超过允许的频率；见 `Retry-After`。",
  "The tool runs as often as it may at one time; see `Retry-After`.":
    "该工具同时进行的调用已达上限；见 `Retry-After`。",
  "The headers are larger than the server takes.": "请求头超过服务器接受的大小。",
  "The server failed; its log says why.": "服务器出错；它的日志说明原因。",
  "The store does not answer.": "存储没有响应。",
  "The server is stopping and takes no new work.": "服务器正在停止，不再接受新工作。",
};

export function chineseOf(text: string): string {
  const translated = translations[text];
  if (translated === undefined) {
    throw new Error(`Add the Chinese of this sentence to scripts/http-reference-chinese.ts: ${text}`);
  }
  return translated;
}
