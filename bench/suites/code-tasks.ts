/** A tool of the bench: what it answers, and whether it changes something. */
export interface TaskTool {
  readonly namespace: string;
  readonly name: string;
  readonly description: string;
  readonly properties: Readonly<Record<string, object>>;
  readonly answer: (args: Readonly<Record<string, unknown>>) => unknown;
}

export interface TaskCall {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** The texts of the tools' answers as a model sees them, in the order of the calls. */
type Answers = readonly string[];

/**
 * A task as a model solves it. `steps` yields the calls of each round, all of a round at once, and returns the answer; it sees
 * what a model would see. `code` does the same in one or more runs: each gets what the run before returned, and the last
 * one's value is the answer.
 */
export interface Task {
  readonly title: string;
  readonly wish: string;
  readonly steps: () => Generator<readonly TaskCall[], string, Answers>;
  readonly code: readonly ((before: string) => string)[];
  readonly expected: string;
}

const text = { type: "string" };
const customers = Array.from({ length: 20 }, (_, at) => ({ id: `c${at + 1}`, name: `Customer ${at + 1}` }));
const ordersOf = (id: string) => {
  const number = Number(id.slice(1));
  return Array.from({ length: 3 }, (_, at) => ({
    order: `${id}-${at}`,
    sku: `s${((number + at) % 15) + 1}`,
    amount: number * 10 + at,
    isOpen: (number + at) % 2 === 0,
    note: "Delivered to the front desk, signed by the receptionist on duty.",
  }));
};
const logRow = (at: number) => ({
  at: 1_700_000_000 + at * 7,
  level: at % 17 === 0 ? "error" : "info",
  service: ["api", "mail", "billing"][at % 3],
  text: `request ${at} took ${at % 250} ms`,
});
let failures = 0;

export const taskTools: readonly TaskTool[] = [
  {
    namespace: "crm",
    name: "list_customers",
    description: "Lists the customers, ten on a page.",
    properties: { page: { type: "integer", description: "From 1." } },
    answer: ({ page = 1 }) => customers.slice((Number(page) - 1) * 10, Number(page) * 10),
  },
  {
    namespace: "crm",
    name: "find_customer",
    description: "Finds a customer by name.",
    properties: { name: text },
    answer: ({ name }) => customers.find((one) => one.name === name) ?? null,
  },
  {
    namespace: "shop",
    name: "list_orders",
    description: "Lists the orders of a customer.",
    properties: { customer: { ...text, description: "The customer's id." } },
    answer: ({ customer }) => ordersOf(String(customer)),
  },
  {
    namespace: "shop",
    name: "get_stock",
    description: "Tells how many pieces of an article are in stock.",
    properties: { sku: { ...text, description: "The number of the article." } },
    answer: ({ sku }) => ({ sku, pieces: Number(String(sku).slice(1)) % 7 }),
  },
  {
    namespace: "desk",
    name: "create_ticket",
    description: "Creates a ticket for the staff.",
    properties: { title: text },
    answer: ({ title }) => ({ ticket: `t-${title}` }),
  },
  {
    namespace: "desk",
    name: "list_mails",
    description: "Lists the mails of today.",
    properties: {},
    answer: () => [
      { id: 1, text: "Thank you, it all arrived in time." },
      { id: 2, text: "This is the third time that I ask. I am done with you." },
      { id: 3, text: "Could you tell me your opening hours?" },
    ],
  },
  {
    namespace: "desk",
    name: "answer_mail",
    description: "Sends the apology to the sender of a mail.",
    properties: { id: { type: "integer" } },
    answer: ({ id }) => ({ answered: id }),
  },
  {
    namespace: "ops",
    name: "read_log",
    description: "Reads rows of the log.",
    properties: { rows: { type: "integer", description: "How many." } },
    answer: ({ rows }) => Array.from({ length: Number(rows) }, (_, at) => logRow(at)),
  },
  {
    namespace: "ops",
    name: "measure",
    description: "Measures the load. May fail when the machine is busy; try again then.",
    properties: {},
    answer: () => {
      if (failures++ % 3 < 2) throw new Error("busy");
      return { load: 0.7 };
    },
  },
];

const call = (tool: string, args: TaskCall["args"] = {}): TaskCall => ({ tool, args });
// biome-ignore lint/suspicious/noExplicitAny: what a tool answered is looked at freely.
const read = (answer: string | undefined): any => {
  try {
    return JSON.parse(answer ?? "");
  } catch {
    return undefined;
  }
};
const once = (code: string) => [() => code];
const countErrors = (rows: ReturnType<typeof logRow>[] | undefined) =>
  String(rows?.filter(({ level }) => level === "error").length ?? "the rows were cut");

export const tasks: readonly Task[] = [
  {
    title: "one look-up",
    wish: "How many pieces of s9 are in stock?",
    *steps() {
      const [stock] = yield [call("get_stock", { sku: "s9" })];
      return String(read(stock).pieces);
    },
    code: once('return (await tools.shop.get_stock({ sku: "s9" })).pieces;'),
    expected: "2",
  },
  {
    title: "two look-ups at once",
    wish: "How many pieces of s3 and s4 are in stock together?",
    *steps() {
      const stocks = yield [call("get_stock", { sku: "s3" }), call("get_stock", { sku: "s4" })];
      return String(stocks.reduce((sum, one) => sum + read(one).pieces, 0));
    },
    code: once(
      'const stocks = await Promise.all(["s3", "s4"].map((sku) => tools.shop.get_stock({ sku })));\nreturn stocks.reduce((sum, { pieces }) => sum + pieces, 0);',
    ),
    expected: "7",
  },
  {
    title: "a chain of two",
    wish: "What do the orders of Customer 7 cost together?",
    *steps() {
      const [customer] = yield [call("find_customer", { name: "Customer 7" })];
      const [orders] = yield [call("list_orders", { customer: read(customer).id })];
      return String(read(orders).reduce((sum: number, one: { amount: number }) => sum + one.amount, 0));
    },
    code: once(
      'const { id } = await tools.crm.find_customer({ name: "Customer 7" });\nconst orders = await tools.shop.list_orders({ customer: id });\nreturn orders.reduce((sum, { amount }) => sum + amount, 0);',
    ),
    expected: "213",
  },
  {
    title: "a loop over 20 customers",
    wish: "What do all open orders of all customers cost together?",
    *steps() {
      const pages = yield [call("list_customers", { page: 1 }), call("list_customers", { page: 2 })];
      const ids = pages.flatMap((page) => read(page).map(({ id }: { id: string }) => id));
      const all = yield ids.map((customer) => call("list_orders", { customer }));
      const open = all.flatMap((orders) => read(orders)).filter(({ isOpen }) => isOpen);
      return String(open.reduce((sum, { amount }) => sum + amount, 0));
    },
    code: once(
      "let total = 0;\nfor (let page = 1; ; page++) {\n  const customers = await tools.crm.list_customers({ page });\n  if (customers.length === 0) break;\n  const all = await Promise.all(customers.map(({ id }) => tools.shop.list_orders({ customer: id })));\n  for (const { isOpen, amount } of all.flat()) if (isOpen) total += amount;\n}\nreturn total;",
    ),
    expected: "3230",
  },
  {
    title: "counting in 300 rows",
    wish: "How many errors are in the first 300 rows of the log?",
    *steps() {
      const [rows] = yield [call("read_log", { rows: 300 })];
      return countErrors(read(rows));
    },
    code: once(
      'return (await tools.ops.read_log({ rows: 300 })).filter(({ level }) => level === "error").length;',
    ),
    expected: "18",
  },
  {
    title: "counting in 5,000 rows",
    wish: "How many errors are in the first 5,000 rows of the log?",
    *steps() {
      const [rows] = yield [call("read_log", { rows: 5_000 })];
      return countErrors(read(rows));
    },
    code: once(
      'return (await tools.ops.read_log({ rows: 5000 })).filter(({ level }) => level === "error").length;',
    ),
    expected: "295",
  },
  {
    title: "a join",
    wish: "Which articles of the orders of Customer 3 are not in stock?",
    *steps() {
      const [orders] = yield [call("list_orders", { customer: "c3" })];
      const skus: string[] = read(orders).map(({ sku }: { sku: string }) => sku);
      const stocks = yield skus.map((sku) => call("get_stock", { sku }));
      return skus.filter((_, at) => read(stocks[at]).pieces === 0).join() || "none";
    },
    code: once(
      'const orders = await tools.shop.list_orders({ customer: "c3" });\nconst stocks = await Promise.all(orders.map(({ sku }) => tools.shop.get_stock({ sku })));\nreturn stocks.filter(({ pieces }) => pieces === 0).map(({ sku }) => sku).join() || "none";',
    ),
    expected: "none",
  },
  {
    title: "a condition",
    wish: "If fewer than 5 pieces of s8 are in stock, create a ticket with the title s8. What is its number?",
    *steps() {
      const [stock] = yield [call("get_stock", { sku: "s8" })];
      if (read(stock).pieces >= 5) return "none";
      const [ticket] = yield [call("create_ticket", { title: "s8" })];
      return read(ticket).ticket;
    },
    code: once(
      'const { pieces } = await tools.shop.get_stock({ sku: "s8" });\nif (pieces >= 5) return "none";\nreturn (await tools.desk.create_ticket({ title: "s8" })).ticket;',
    ),
    expected: "t-s8",
  },
  {
    title: "trying again",
    wish: "Measure the load.",
    *steps() {
      for (;;) {
        const [answer] = yield [call("measure")];
        const { load } = Object(read(answer));
        if (load !== undefined) return String(load);
      }
    },
    code: once(
      "for (;;) {\n  try {\n    return (await tools.ops.measure()).load;\n  } catch (error) {\n    if (!error.recoverable) throw error;\n  }\n}",
    ),
    expected: "0.7",
  },
  {
    title: "25 changes",
    wish: "Create 25 tickets with the titles 1 to 25. What is the number of the last?",
    *steps() {
      const titles = Array.from({ length: 25 }, (_, at) => String(at + 1));
      const tickets = yield titles.map((title) => call("create_ticket", { title }));
      return read(tickets.at(-1)).ticket;
    },
    code: once(
      "let last;\nfor (let n = 1; n <= 25; n++) last = await tools.desk.create_ticket({ title: String(n) });\nreturn last.ticket;",
    ),
    expected: "t-25",
  },
  {
    title: "reading what people wrote",
    wish: "Send the apology to the angriest sender of today. Which mail was it?",
    *steps() {
      const [mails] = yield [call("list_mails")];
      // A model reads the mails; the script knows what it would say.
      const angry = read(mails).find(({ text: said }: { text: string }) => /done with you/.test(said)).id;
      yield [call("answer_mail", { id: angry })];
      return String(angry);
    },
    // Code cannot read: the mails come back to the model, which writes a second program.
    code: [
      () => "return await tools.desk.list_mails();",
      (before) => {
        const angry = read(before).find(({ text: said }: { text: string }) => /done with you/.test(said)).id;
        return `return (await tools.desk.answer_mail({ id: ${angry} })).answered;`;
      },
    ],
    expected: "2",
  },
  {
    title: "the largest of all",
    wish: "Which order is the most expensive, of all customers?",
    *steps() {
      const pages = yield [call("list_customers", { page: 1 }), call("list_customers", { page: 2 })];
      const ids = pages.flatMap((page) => read(page).map(({ id }: { id: string }) => id));
      const all = yield ids.map((customer) => call("list_orders", { customer }));
      const orders = all.flatMap((one) => read(one));
      return orders.toSorted((one, other) => other.amount - one.amount)[0].order;
    },
    code: once(
      "const pages = await Promise.all([1, 2].map((page) => tools.crm.list_customers({ page })));\nconst all = await Promise.all(pages.flat().map(({ id }) => tools.shop.list_orders({ customer: id })));\nreturn all.flat().toSorted((a, b) => b.amount - a.amount)[0].order;",
    ),
    expected: "c20-2",
  },
];
