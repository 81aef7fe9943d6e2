import type { Catalogue } from "../catalogue.ts";

/**
 * Texts of the settings and of MCP servers. Each in English and in Chinese; `|` separates singular from
 * plural.
 */
export const settings = {
  settings: {
    appearance: ["Appearance", "外观"],
    language: ["Language", "语言"],
    theme: ["Theme", "主题"],
    tokens: ["Tokens", "令牌"],
    tokensAbout: [
      "Give every agent a token of its own, for only the tools it needs.",
      "给每个智能体单独的令牌，只开放它需要的工具。",
    ],
    tokenTools: [
      "Tools, * stands for anything, mcp:KEY for one MCP server (a slash in the key is %2F)",
      "工具，* 代表任意内容，mcp:KEY 代表一个 MCP 服务器（键中的斜杠写作 %2F）",
    ],
    tokenDays: ["Days", "有效天数"],
    admin: ["Admin", "管理员"],
    createToken: ["Create a token", "创建令牌"],
    newToken: ["New token", "新令牌"],
    tokenOnce: ["Copy it now: this is the only time it is shown.", "请立即复制：令牌只显示这一次。"],
    used: ["used", "最近使用："],
    unused: ["never used", "从未使用"],
    secrets: ["Secrets", "机密"],
    secretsAbout: [
      "They are encrypted, masked in every record, and never shown again.",
      "加密保存，在所有记录中脱敏，之后不再显示。",
    ],
    secretValue: ["Value", "值"],
    setSecret: ["Set the secret", "保存机密"],
    limits: ["Limits and retention", "限额与保留"],
    limitsAbout: [
      "They are set in toolrack.config.ts and hold from the next start:",
      "在 toolrack.config.ts 中设置，下次启动时生效：",
    ],
    days: ["Records are kept for", "记录保留"],
    bytes: ["Records take at most", "记录最多占用"],
    limitNames: {
      maxBody: ["Largest request body", "请求体上限"],
      maxCallsPerTool: ["Calls of one tool at one time", "单个工具同时运行的调用数"],
      timeout: ["Longest run of a tool", "工具最长运行时间"],
      requestsPerSecond: ["Requests of one token per second", "单个令牌每秒请求数"],
    },
    noLimit: ["no limit", "无限制"],
    dayCount: ["{count} day | {count} days", "{count} 天"],
    tokenFor: ["May use", "可以使用"],
    tokenExperts: ["Experts, * stands for anything", "专家，* 代表任意"],
    adminAbout: [
      "An admin may see and do everything, and approve calls. Never give such a token to an agent.",
      "管理员可以查看和操作一切，并批准调用。不要把这样的令牌交给智能体。",
    ],
    noEnd: ["no end", "不过期"],
    neverEnds: ["never expires", "永不过期"],
    ends: ["expires", "过期于"],
    ended: ["expired", "已过期"],
    mayChat: ["May chat", "可以对话"],
    mayApprove: ["May approve", "可以审批"],
    mayNotChat: ["No chat", "不可对话"],
    mayChatAbout: [
      "Whether it may talk to models, on your provider's account",
      "是否可以与模型对话，费用计入你的模型服务账户",
    ],
    tokenKinds: {
      tools: ["Tools", "工具"],
      experts: ["Experts", "专家"],
      admin: ["Everything", "一切"],
    },
  },
  mcpServers: {
    states: {
      starting: ["Starting", "正在启动"],
      ready: ["Ready", "就绪"],
      resting: ["Resting", "休眠"],
      "needs-auth": ["Needs sign-in", "需要登录"],
      backoff: ["Waiting to retry", "等待重试"],
      failed: ["Failed", "失败"],
      disabled: ["Disabled", "已禁用"],
    },
    views: {
      tools: ["Tools", "工具"],
      log: ["Log", "日志"],
      entry: ["Entry", "配置"],
    },
    pins: {
      approved: ["Approved", "已批准"],
      quarantined: ["Changed", "有变更"],
    },
    add: ["Add MCP servers", "添加 MCP 服务"],
    addAbout: [
      "Paste what the server's documentation or another client has.",
      "粘贴服务文档或其他客户端中的配置。",
    ],
    addCount: [
      "Add the server | Add {count} server | Add {count} servers",
      "添加服务 | 添加 {count} 个服务 | 添加 {count} 个服务",
    ],
    json: ["JSON with mcpServers, servers, or one entry", "包含 mcpServers、servers 或单个条目的 JSON"],
    found: ["Servers in it", "其中的服务"],
    isThere: ["has this name already", "已有同名服务"],
    noServersInIt: [
      "This JSON has no servers: an entry has a command or a url.",
      "这段 JSON 中没有服务：条目须有 command 或 url。",
    ],
    notServers: ["These are no servers and are left out: {names}", "以下内容不是服务，已略过：{names}"],
    wasAdded: ["added", "已添加"],
    refused: ["Refused", "未接受"],
    secretsAbout: [
      "Keep keys out of it: set a secret in Settings and write {reference} instead.",
      "不要直接写入密钥：在“设置”中保存机密，然后写 {reference}。",
    ],
    none: [
      "No MCP server is connected. Paste its mcpServers JSON to bring its tools onto the rack.",
      "还没有连接 MCP 服务。粘贴它的 mcpServers JSON，工具就会上架。",
    ],
    choose: [
      "Choose a server to see its state, its tools and its log.",
      "选择一个服务，查看它的状态、工具和日志。",
    ],
    unknown: ["There is no server {name}.", "没有名为 {name} 的服务。"],
    restart: ["Restart", "重启"],
    signOut: ["Sign out of the server", "退出该服务器的登录"],
    signInHere: ["Go on to sign in", "前往登录"],
    signInPending: [
      "Finish signing in on the page that was opened. It works for ten minutes.",
      "请在打开的页面上完成登录，十分钟内有效。",
    ],
    removeAsk: ["End it and forget it?", "停止并移除它？"],
    inFlight: ["{inFlight} under way, {waiting} waiting", "{inFlight} 个进行中，{waiting} 个排队"],
    noise: ["{count} line that is no message | {count} lines that are no messages", "{count} 行输出不是消息"],
    nextAttempt: [
      "Failed {failures} times in a row. Next attempt in {time}.",
      "已连续失败 {failures} 次，{time}后重试。",
    ],
    circuitOpen: ["Calls fail at once until it is back", "恢复之前，调用会立即失败"],
    quarantined: ["{count} tool changed | {count} tools changed", "{count} 个工具有变更"],
    leftOut: ["{count} left out", "{count} 个未接受"],
    unchecked: [
      "Offered, but its {part} is not checked here: {reason}",
      "可以使用，但其 {part} 在这里不作检查：{reason}",
    ],
    inFileAbout: [
      "It stands in the workspace's mcp.json, and is changed and removed there.",
      "它写在工作区的 mcp.json 中，请在文件里修改或删除。",
    ],
    inStoreAbout: [
      "It was added here. Values that may be secret are hidden: leave [hidden] and [redacted] as they are to keep the values, or write others in their place.",
      "它是在这里添加的。可能是机密的值已隐藏：保留 [hidden] 和 [redacted] 即保留原值，也可以改写成新值。",
    ],
    onlyThis: [
      "Nothing was saved: the text must hold the entry of {name} and no other server.",
      "没有保存：文本中只能有 {name} 的条目，不能有其他服务。",
    ],
    problem: ["Entry not valid", "条目无效"],
    lastWord: ["Its last words:", "它最后写下的："],
    problemTitle: ["Its entry is not valid as it is written now", "它现在的条目无效"],
    incomplete: ["Not read to the end", "未读完"],
    incompleteTitle: ["Not everything that it lists is here", "它列出的内容没有全部读取"],
    incompleteAbout: ["What was read can be used.", "已读取的部分可以使用。"],
    mendInFile: [
      "Correct the entry in the workspace's mcp.json. It is taken up as soon as the file is saved.",
      "请在工作区的 mcp.json 中更正该条目，保存文件后立即生效。",
    ],
    mendInStore: [
      "Under Entry is the last one that was valid: save it again or change it. Or remove the server.",
      "“配置”中是最后一次有效的条目：再次保存它或修改它，也可以移除该服务。",
    ],
    fileProblemTitle: ["mcp.json cannot be read", "无法读取 mcp.json"],
    mendFile: [
      "Correct the file in the workspace. It is read again as soon as it is saved.",
      "请更正工作区中的这个文件，保存后会重新读取。",
    ],
    toolsAreOff: [
      "The server is disabled, and its tools with it. Enable the server to use them.",
      "该服务已禁用，它的工具也随之停用。启用服务后即可使用。",
    ],
    changed: ["Changed definitions", "变更的定义"],
    changedAbout: [
      "These tools say something else than when they were approved, so they are off. Read what changed before you approve it.",
      "这些工具的定义与批准时不同，因此已停用。请先查看变更，再批准。",
    ],
    changedAgain: [
      "{name} changed again after you looked at it, so nothing was approved. The page shows what it says now: read it again.",
      "你查看之后 {name} 又变了，因此没有批准任何内容。页面上是它现在的定义，请重新查看。",
    ],
    changesOf: ["What changed in {name}", "{name} 的变更"],
    approve: ["Approve the change", "批准变更"],
    approveAll: ["Approve all", "全部批准"],
    approvedBy: ["Approved by {by}", "批准者：{by}"],
    firstUse: ["As it was first seen", "以首次所见为准"],
    notOffered: ["Left out by its entry", "已被其配置排除"],
    override: ["Name and description of {name}", "{name} 的名称和说明"],
    overrideAbout: [
      "What models are shown instead. Empty fields leave what the server says.",
      "改为向模型显示的内容；留空则使用服务自己的。",
    ],
    openTool: ["Open {name}", "打开 {name}"],
    noTools: ["It has no tools yet.", "它还没有工具。"],
    noLog: ["It has written nothing yet.", "它还没有任何输出。"],
  },
} as const satisfies Catalogue;
