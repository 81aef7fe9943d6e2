import { describe, expect, it } from "vitest";
import { TemporaryWorkspace } from "../../testing/temporary-workspace.ts";

const metadata = `getMetadata() {
  return {
    id: 'tool-id',           // 唯一标识
    name: '工具名称',         // 显示名称
    description: '功能说明',  // 一句话描述
    version: '1.0.0',        // 版本号
    author: '作者'           // 作者信息
  };
}`;

const schema = `getSchema() {
  return {
    // 执行参数Schema
    parameters: {
      type: 'object',
      properties: {
        input: { 
          type: 'string',
          description: '输入参数',
          minLength: 1,        // 最小长度
          maxLength: 1000,     // 最大长度
          pattern: '^[\\\\w]+$'  // 正则验证
        },
        count: {
          type: 'number',
          description: '数量',
          minimum: 1,          // 最小值
          maximum: 100,        // 最大值
          default: 10          // 默认值
        },
        format: {
          type: 'string',
          enum: ['json', 'xml', 'text'],  // 枚举值
          default: 'json'
        }
      },
      required: ['input']      // 必需参数
    },
    
    // 环境变量Schema
    environment: {
      type: 'object',
      properties: {
        API_KEY: {
          type: 'string',
          description: 'API密钥'
        },
        TIMEOUT: {
          type: 'number',
          description: '超时时间(ms)',
          minimum: 1000,
          maximum: 60000,
          default: 30000
        }
      },
      required: ['API_KEY']    // 必需环境变量
    }
  };
}`;

const execute = `async execute(params) {
  const { api } = this;  // 获取沙箱注入的API
  
  // 系统已基于Schema自动验证参数
  // 无需手动调用this.validate()
  
  // Schema无法表达的业务验证
  if (params.startDate > params.endDate) {
    throw new Error('开始日期不能晚于结束日期');
  }
  
  // 使用API记录日志
  api.logger.info('开始处理', { params });
  
  // 执行核心业务逻辑
  const result = await this.processData(params.input);
  
  api.logger.info('处理成功');
  return result;
}`;

const businessErrors = `getBusinessErrors() {
  return [
    {
      code: 'API_RATE_LIMIT',
      description: 'API调用频率超限',
      match: /rate limit/i,    // 正则匹配
      solution: '等待60秒后重试',
      retryable: true
    },
    {
      code: 'FILE_NOT_FOUND',
      description: '文件不存在',
      match: 'ENOENT',         // 字符串匹配
      solution: '检查文件路径',
      retryable: false
    }
  ];
}`;

const lifecycle = `async init() {
  // 初始化资源
}

async cleanup() {
  // 清理资源
}`;

const simplest = `module.exports = {
  getMetadata() {
    return {
      id: 'my-tool',
      name: '我的工具',
      description: '简单实用的工具'
    };
  },
  
  getSchema() {
    return {
      parameters: {
        type: 'object',
        properties: {
          text: { type: 'string', minLength: 1 }
        },
        required: ['text']
      }
    };
  },
  
  async execute(params) {
    return params.text.toUpperCase();
  }
};`;

describe("the contract's own examples", { timeout: 120_000 }, () => {
  it("the simplest tool runs as printed", async () => {
    await using workspace = await TemporaryWorkspace.create({ "tools/my-tool.tool.js": simplest });
    const { registry, report } = await workspace.open();
    expect(report.files).toMatchObject([{ status: "loaded", contract: "single-file", tools: ["my-tool"] }]);
    expect(registry.get("my-tool")).toMatchObject({ displayName: "我的工具", description: "简单实用的工具" });
    expect(await registry.execute("my-tool", { text: "hello" })).toMatchObject({
      content: "HELLO",
      type: "text",
    });
    expect((await registry.execute("my-tool", { text: "" })).error?.code).toBe("invalid_arguments");
  });

  it("every rule that it names is checked before execute, in nested objects too", async () => {
    const rules = `{ type: "object", additionalProperties: false, required: ["s"], properties: {
      s: { type: "string", maxLength: 3 }, n: { type: "number", maximum: 5 }, b: { type: "boolean" },
      a: { type: "array", items: { type: "string", format: "email" } },
      o: { type: "object", properties: { deep: { type: "object", properties: { x: { type: "integer", minimum: 3 } }, required: ["x"], additionalProperties: false } } },
    } }`;
    await using workspace = await TemporaryWorkspace.create({
      "tools/rules.tool.js": `module.exports = { getMetadata: () => ({ id: "rules" }), getSchema: () => ({ parameters: ${rules} }), execute: async (params) => params };`,
    });
    const { registry } = await workspace.open();
    const right = { s: "abc", n: 5, b: true, a: ["a@example.com"], o: { deep: { x: 3 } } };
    expect((await registry.execute("rules", right)).structured).toEqual(right);
    const wrong: [object, string][] = [
      [{ s: 5 }, "- s: Expected string"],
      [{ s: "abcd" }, "at most 3 characters"],
      [{ s: "a", n: "x" }, "- n: Expected number"],
      [{ s: "a", n: 6 }, "≤ 5"],
      [{ s: "a", b: "maybe" }, "- b: Expected boolean"],
      [{ s: "a", o: [] }, "- o: Expected object"],
      [{ s: "a", a: {} }, "- a: Expected array"],
      [{ s: "a", a: ["a@example.com", "no"] }, "- a[1]: Expected string in email format"],
      [{ s: "a", o: { deep: { x: 2 } } }, "- o.deep.x: Expected integer ≥ 3"],
      [{ s: "a", o: { deep: {} } }, "`o.deep.x` is missing"],
      [{ s: "a", o: { deep: { x: 3, y: 1 } } }, "`o.deep.y` is not a known key"],
      [{ s: "a", t: 1 }, "`t` is not a known key"],
      [{}, "`s` is missing"],
    ];
    for (const [input, reason] of wrong) {
      const { content, error } = await registry.execute("rules", input);
      expect([error?.code, content]).toEqual(["invalid_arguments", expect.stringContaining(reason)]);
    }
  });

  it("the methods run together as printed: validation, defaults, environment, logging and errors", async () => {
    const processData = `processData(input) {
      if (input === 'limit') throw new Error('429: Rate Limit exceeded');
      if (input === 'file') return require('fs').promises.readFile('missing.txt');
      const { environment } = this.api;
      return { input, key: environment.get('API_KEY').length, timeout: environment.get('TIMEOUT') };
    }`;
    const methods = [metadata, schema, execute, businessErrors, lifecycle, processData]
      .join(",\n")
      .replace("}\n\nasync cleanup", "},\n\nasync cleanup");
    await using workspace = await TemporaryWorkspace.create({
      "tools/tool-id.tool.js": `module.exports = {\n${methods}\n};`,
      "toolrack.config.mjs": `export default { sandbox: { grants: { "tool-id": { environment: { API_KEY: "k-12345" } } } } };`,
    });
    const { registry, report } = await workspace.open();
    expect(report.files[0]?.failure).toBeUndefined();
    expect(registry.get("tool-id")?.metadata).toMatchObject({ version: "1.0.0", author: "作者" });

    const done = await registry.execute("tool-id", { input: "abc" });
    expect(done.structured).toEqual({ input: "abc", key: 7, timeout: 30_000 });
    expect(workspace.messages.join("\n")).toContain("[tool-id] 开始处理");

    for (const wrong of [
      { input: "no spaces" },
      { input: "a", count: 0 },
      { input: "a", format: "pdf" },
      {},
    ]) {
      expect((await registry.execute("tool-id", wrong)).error?.code, JSON.stringify(wrong)).toBe(
        "invalid_arguments",
      );
    }
    const limited = await registry.execute("tool-id", { input: "limit" });
    expect(limited.error).toMatchObject({
      code: "business_error",
      details: { code: "API_RATE_LIMIT", solution: "等待60秒后重试", retryable: true },
    });
    expect(limited.content).toMatch(/API调用频率超限[\s\S]*等待60秒后重试/);
    const missing = await registry.execute("tool-id", { input: "file" });
    expect(missing.error?.details).toMatchObject({
      code: "FILE_NOT_FOUND",
      input: { input: "file" },
      retryable: false,
    });
  });
});
