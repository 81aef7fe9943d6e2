/** By the English sentence, so that a sentence that changes in the API cannot keep an old translation. */
const translations: Readonly<Record<string, string>> = {
  "The models of all providers, as OpenAI lists them": "所有提供方的模型，格式与 OpenAI 相同",
  "One model, as OpenAI tells of it": "单个模型，格式与 OpenAI 相同",
  "The same for a name with a slash that is not encoded": "同上，用于名称中的斜杠未编码的情况",
  "Asks a model that has the rack's tools": "向拥有这些工具的模型提问",
  "Whether there is a model to talk to, and its limits": "是否有可对话的模型，以及限制",
  "Which tools a model would be offered, and what they take of its window":
    "会向模型提供哪些工具，各占用多少篇幅",
  "The conversations, the last used first": "对话，最近使用的在前",
  "Begins a conversation": "开始一场对话",
  "A conversation with its messages, oldest first": "一场对话及其消息，最旧的在前",
  "Gives a conversation another title or model": "修改对话的标题或模型",
  "Deletes a conversation and its messages; the records of its calls stay":
    "删除一场对话及其消息；调用的记录保留",
  "Says something, and has it answered": "发送一条消息并得到回答",
  "What happens in the turn under way, until it ends": "正在进行的一轮中发生的事，直到结束",
  "Ends the turn under way: the model's answer, and its calls": "结束正在进行的一轮：模型的回答及其调用",
  "The model provider does not accept the request; its words are in the message.":
    "模型提供方不接受该请求；它的说明在消息中。",
  "No model provider has a model of this name.": "没有提供方拥有这个名称的模型。",
  "No conversation that this token may see has this id.": "该令牌可见的对话中没有这个 id。",
  "The last message of the conversation is still being answered.": "对话的上一条消息仍在回答中。",
  "The same request made calls a moment ago and was cancelled with its connection; it is not done twice.":
    "同一个请求刚才进行过调用，并随连接一起被取消；它不会做两次。",
  "The model provider takes no more requests for now; see `Retry-After`.":
    "模型提供方暂时不接受更多请求；见 `Retry-After`。",
  "The model provider failed, or could not be reached.": "模型提供方失败，或无法连接。",
  "The model provider does not accept the key that it is configured with.": "模型提供方不接受所配置的密钥。",
  "No model provider is configured, or its key is not set.": "没有配置模型提供方，或没有设置它的密钥。",
  "Whether the process lives": "进程是否存活",
  "Whether the server takes work": "服务器是否接受工作",
  "Proves that this is the workspace's server": "证明这是工作区的服务器",
  "The `Expect` header asks for something else than `100-continue`.":
    "`Expect` 请求头要求 `100-continue` 以外的内容。",
  "Counts and times in the text format of Prometheus": "计数和用时，Prometheus 文本格式",
  "This description": "API 的描述，OpenAPI 3.1",
  "The tool files and what became of each": "工具文件及其各自的情况",
  "Brings the rack in step with the tool files": "按工具文件重新加载",
  "The tools that the token may see": "该令牌可见的工具",
  "One tool with its schemas": "一个工具及其 schema",
  "Switches a tool on or off": "启用或停用一个工具",
  "Switches several tools on or off": "同时启用或停用多个工具",
  "Calls a tool": "调用一个工具",
  "Recorded calls, newest first": "已记录的调用，最新的在前",
  "One call, under way or ended": "一次调用，进行中或已结束",
  "Cancels a call under way, and the calls it made": "取消进行中的调用及其发起的调用",
  "The whole text of a result, page by page": "结果的全文，逐页读取",
  "The whole record of a call that has ended, as a file": "一次已结束的调用的完整记录，以文件形式给出",
  "Makes a recorded call again": "重新执行一次已记录的调用",
  "Questions that wait for a person, newest first": "等待人回答的问题，最新的在前",
  "One question, and the answer to it": "一个问题及其回答",
  "Answers a question; the first answer counts": "回答一个问题；第一个回答有效",
  "Answers that were given for calls to come": "为以后的调用给出的回答",
  "Answers calls to come": "为以后的调用给出回答",
  "Takes a rule back": "收回一条规则",
  "What is to run later, the soonest first": "之后要运行的任务，最近的在前",
  "Cancels a schedule": "取消一个定时任务",
  "The skills, and folders that could not be read": "技能，以及无法读取的文件夹",
  "Makes a skill": "创建一个技能",
  "Brings skills and experts from elsewhere": "从别处导入技能和专家",
  "A skill as a zip archive of its folder": "技能文件夹的 zip 压缩包",
  "One skill with its tools and files": "一个技能及其工具和文件",
  "Changes a skill": "修改一个技能",
  "Deletes a skill with its tools": "删除一个技能及其工具",
  "Adds a tool to a skill": "为技能添加一个工具",
  "The tools of a skill": "技能的工具",
  "One tool of a skill": "技能的一个工具",
  "Changes a tool of a skill": "修改技能的一个工具",
  "Deletes a tool of a skill": "删除技能的一个工具",
  "Calls a tool that has not been saved": "调用一个尚未保存的工具",
  "The experts that the token may use": "该令牌可使用的专家",
  "Makes an expert": "创建一个专家",
  "One expert": "一个专家",
  "Changes an expert": "修改一个专家",
  "Deletes an expert": "删除一个专家",
  "There is no skill with this id or name.": "没有这个 id 或名称的技能。",
  "The skill has no tool with this id or name.": "该技能没有这个 id 或名称的工具。",
  "No expert that this token may use has this name or id.": "该令牌可使用的专家中没有这个名称或 id。",
  "The skill, tool or expert was changed after it was looked at, so nothing was; `details` has its `updatedAt` of now, and in `now` the fields that were to be changed.":
    "查看之后该技能、工具或专家已被修改，因此没有改动；`details` 中有它现在的 `updatedAt`，`now` 中有本要修改的字段。",
  "The skill lives in a folder, where it is to be changed.": "该技能在文件夹中，应在那里修改。",
  "The whole of a long result is on another node, or was deleted. The record has its beginning.":
    "长结果的全文在另一个节点上，或已被删除；记录中有其开头。",
  "The MCP servers whose tools are on the rack": "其工具在注册表上的 MCP 服务器",
  "Adds an MCP server and starts it": "添加一个 MCP 服务器并启动它",
  "One MCP server": "一个 MCP 服务器",
  "Switches a server on or off, changes its entry, or says something about its tools":
    "启用或停用一个服务器，修改其配置，或说明其工具",
  "Ends a server and forgets it": "结束一个服务器并忘记它",
  "Ends a server and starts it anew": "结束一个服务器并重新启动",
  "Begins to sign in at a server that asks for it": "开始在要求登录的服务器登录",
  "Forgets the sign-in at a server, and has its tokens taken back where that can be done":
    "忘记在一个服务器的登录，并在可行时撤销其令牌",
  "What a server wrote to its standard error and logged, and what was done with it":
    "服务器写到标准错误和日志的内容，以及对它做了什么",
  "The tools of a server, and whether they are what was approved": "服务器的工具，以及它们是否与批准的一致",
  "Approves all tools of a server as they are now": "按现状批准服务器的全部工具",
  "Approves a tool as it is now": "按现状批准一个工具",
  "There is no upstream MCP server with this key.": "没有这个键的上游 MCP 服务器。",
  "The upstream MCP server has no tool of this name.": "上游 MCP 服务器没有这个名称的工具。",
  "The tool changed after it was looked at, so it was not approved; `details` has its `hash` and `changes` of now.":
    "工具在被查看之后发生了变化，因此未被批准；`details` 中有它现在的 `hash` 和 `changes`。",
  "The upstream MCP server, or who signs in for it, does not let the rack sign in; the message says why.":
    "上游 MCP 服务器或其授权服务器不允许注册表登录；原因见消息。",
  "There is an upstream MCP server with this key already.": "已经有这个键的上游 MCP 服务器。",
  "The upstream MCP server stands in the workspace's file and is changed there.":
    "上游 MCP 服务器在工作区的文件中，应在那里修改。",
  "The key or the entry of an upstream MCP server cannot be used.": "上游 MCP 服务器的键或配置不可用。",
  "The version, the workspace and the limits of this server": "服务器的版本、工作区和限制",
  "The last loads of the tool files, newest first": "最近几次加载工具文件的情况，最新的在前",
  "The MCP clients that were seen since the start": "启动以来出现过的 MCP 客户端",
  "The tokens that were made, without their texts": "已创建的令牌，不含令牌本身",
  "Makes a token, and shows its text this once": "创建一个令牌，令牌本身只显示这一次",
  "Takes a token back": "收回一个令牌",
  "How much each sandboxed tool and skill has kept in its data folder":
    "每个沙箱工具和技能在自己的数据文件夹里保存了多少",
  "Deletes all files in a data folder": "删除一个数据文件夹里的所有文件",
  "No sandboxed tool or skill of this name has kept files.": "没有这个名称的沙箱工具或技能保存过文件。",
  "The names of the secrets; never a value": "密钥的名称，从不含值",
  "Sets a secret, or replaces its value": "设置一个密钥，或替换它的值",
  "Deletes a secret": "删除一个密钥",
  "How many calls ended, failed and how long they took: in all, over time and by tool":
    "结束和失败的调用数及用时：总计、按时间、按工具",
  "The name or the value cannot be that of a secret.": "该名称或值不能用作密钥。",
  "There is no token with this id.": "没有这个 id 的令牌。",
  "There is no secret of this name.": "没有这个名称的密钥。",
  "What happens on the rack, as it happens": "实时事件流",
  "The `tools` of a Chat Completions request": "Chat Completions 请求的 `tools`",
  "Runs the calls of an assistant message": "执行一条 assistant 消息中的调用",
  "The request line, the headers or the body could not be read.": "请求行、请求头或请求体无法读取。",
  "The body is not JSON in UTF-8.": "请求体不是 UTF-8 的 JSON。",
  "The path, the query or the body does not fit its schema; `details.issues` lists each place.":
    "路径、查询或请求体不符合 schema；`details.issues` 列出每一处。",
  "There is no token, or it is unknown or has expired.": "没有令牌，或令牌未知或已过期。",
  "The token is valid but not an admin's.": "令牌有效，但不是管理员的。",
  "The token may not use the models, or the conversation belongs to another token.":
    "该令牌不能使用模型，或者该对话属于另一个令牌。",
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
  "The call that asks waits on another node, and expires before that would learn of the answer.":
    "提问的调用在另一个节点上等待，并会在那里得知回答之前过期。",
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
  "The store does not answer, or as many records as are kept in memory wait for it; `details` says why and how many.":
    "存储没有响应，或在内存中等待的记录已达上限；`details` 说明原因和数量。",
  "The rack's database is away, locked, damaged, or its disk is full; `details.reason` says which. See `Retry-After`.":
    "数据库没有响应、被锁住或已损坏，或其磁盘已满；`details.reason` 说明是哪一种。见 `Retry-After`。",
  "The server is stopping and takes no new work.": "服务器正在停止，不再接受新工作。",
};

export function chineseOf(text: string): string {
  const translated = translations[text];
  if (translated === undefined) {
    throw new Error(`Add the Chinese of this sentence to scripts/http-reference-chinese.ts: ${text}`);
  }
  return translated;
}
