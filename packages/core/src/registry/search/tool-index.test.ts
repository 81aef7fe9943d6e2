import { describe, expect, test } from "vitest";
import { cpuTime } from "../../../../../scripts/cpu-time.ts";
import type { SearchDocument } from "./search-document.ts";
import { ToolIndex } from "./tool-index.ts";

const weather: SearchDocument = {
  key: "weather",
  name: "getCurrentWeather",
  aliases: ["wx"],
  title: "Meteo",
  displayName: "Weather/天气查询",
  description: "Retrieve temperature and humidity for a city.",
  parameters: {
    type: "object",
    properties: {
      location: { type: "string", description: "Municipality to look up" },
      unit: { enum: ["celsius", "fahrenheit"] },
    },
  },
  tags: ["forecasting"],
  category: "environment",
};
const mail: SearchDocument = { key: "mail", name: "send_email", description: "Send a message to a person." };
const files: SearchDocument = {
  key: "files",
  name: "list-files",
  description: "List the files of a folder.",
};

describe("what is found", () => {
  test.each([
    ["name", "current weather"],
    ["alias", "wx"],
    ["title", "meteo"],
    ["display name in Chinese", "请帮我查询北京的天气"],
    ["description, inflected", "retrieving temperatures"],
    ["parameter name", "locations"],
    ["parameter description", "municipality"],
    ["enumerated value", "fahrenheit"],
    ["tag", "forecast"],
    ["category", "environments"],
    ["joined words of the name", "currentweather"],
    ["full-width letters and accents", "ＷＥÁＴＨＥＲ"],
    ["unfinished word", "show me the weath"],
    ["slip of the finger", "wether"],
  ])("a tool by its %s", (_, query) => {
    expect(keys(indexOf(mail, files, weather), query)[0]).toBe("weather");
  });

  test("parameters may be made on demand, and a schema that cannot be made hides only itself", () => {
    const index = indexOf(
      { key: "lazy", name: "one", parameters: () => ({ properties: { altitude: {} } }) },
      {
        key: "broken",
        name: "two",
        description: "Measures depth",
        parameters: () => {
          throw new Error("no schema");
        },
      },
    );
    expect(keys(index, "altitude")).toEqual(["lazy"]);
    expect(keys(index, "depth")).toEqual(["broken"]);
  });
});

describe("ranking", () => {
  const chatter = "send email send email send email, the best way to send email";

  test.each(["send_email", "SEND_EMAIL", "sendEmail", "send email", " Send-Email "])(
    "the tool that is named %j comes first, however much others talk about it",
    (query) => {
      const index = indexOf(
        { key: "a", name: "email_send_email_sender", title: chatter, description: chatter },
        mail,
      );
      expect(keys(index, query)).toEqual(["mail", "a"]);
    },
  );

  test("an alias counts like the name", () => {
    const index = indexOf(
      { key: "a", name: "dispatch_send", description: chatter, title: "dispatch dispatch" },
      {
        ...mail,
        aliases: ["dispatch"],
      },
    );
    expect(keys(index, "Dispatch")[0]).toBe("mail");
  });

  test("the literal spelling comes before the same words spelt otherwise", () => {
    const index = indexOf({ key: "a", name: "getUser" }, { key: "b", name: "get_user" });
    expect(keys(index, "get_user")).toEqual(["b", "a"]);
    expect(keys(index, "getuser")).toEqual(["a", "b"]);
  });

  test("name before title before description before the descriptions of parameters", () => {
    const index = indexOf(
      { key: "parameter", name: "d", parameters: { properties: { x: { description: "invoice" } } } },
      { key: "description", name: "c", description: "invoice" },
      { key: "title", name: "b", title: "invoice" },
      { key: "name", name: "invoice_x" },
    );
    expect(keys(index, "find an invoice for me")).toEqual(["name", "title", "description", "parameter"]);
  });

  test("rare words count for more than common ones", () => {
    const common = Array.from({ length: 20 }, (_, at) => ({ key: `user${at}`, name: `user_tool_${at}` }));
    const index = indexOf(...common, { key: "rare", name: "turbine_tool" });
    expect(keys(index, "user turbine")[0]).toBe("rare");
  });

  test("a title is worth the same whether few or many tools have one", () => {
    const untitled = Array.from({ length: 50 }, (_, at) => ({ key: `t${at}`, name: `thing_${at}` }));
    const index = indexOf(
      ...untitled,
      { key: "title", name: "x", title: "invoice" },
      {
        key: "text",
        name: "y",
        description: "invoice",
      },
    );
    expect(keys(index, "some invoice")[0]).toBe("title");
  });

  test("equal scores are ordered by key, whatever the order of adding", () => {
    const tools = ["c", "a", "d", "b"].map((key) => ({ key, name: "same_name", description: "same text" }));
    expect(keys(indexOf(...tools), "same text")).toEqual(["a", "b", "c", "d"]);
    expect(keys(indexOf(...tools.toReversed()), "text")).toEqual(["a", "b", "c", "d"]);
    expect(keys(indexOf(...tools), "same text", { limit: 2 })).toEqual(["a", "b"]);
  });

  test("scores fall from match to match", () => {
    const scores = indexOf(mail, files, weather)
      .search("send the weather of a folder")
      .map((match) => match.score);
    expect(scores.length).toBe(3);
    expect(scores).toEqual(scores.toSorted((left, right) => right - left));
  });
});

describe("several wishes", () => {
  const index = indexOf(
    weather,
    mail,
    files,
    { key: "flight", name: "book_flight", description: "Books a seat on a plane to a city." },
    { key: "hotel", name: "book_hotel", description: "Books a room in a city, for a person or several." },
  );

  test("each gets its tool, however much the others say", () => {
    const query =
      "Book a hotel room in a nice city for several persons, not far from the middle of the city. Also, send an email.";
    expect(keys(index, query, { limit: 2 }).sort()).toEqual(["hotel", "mail"]);
    const shareOfMail = (intents: boolean) => {
      const matches = index.search(query, { intents });
      return matches.find(({ key }) => key === "mail")!.score / matches[0]!.score;
    };
    expect(shareOfMail(true)).toBeGreaterThan(1.1 * shareOfMail(false));
  });

  test("one wish is ranked by all that it says", () => {
    const query = "list the files";
    expect(index.search(query)).toEqual(index.search(query, { intents: false }));
  });
});

describe("fair to short and long tools", () => {
  test("a tool without parameters is not behind one that repeats its words in them", () => {
    const properties = Object.fromEntries(
      ["invoice_id", "invoice_date", "customer"].map((name) => [
        name,
        { description: "Of the archive, the day or so." },
      ]),
    );
    const padding = Array.from({ length: 10 }, (_, at) => ({
      key: `p${at}`,
      name: `other_${at}`,
      parameters: { properties },
    }));
    const long = {
      key: "long",
      name: "archive",
      description: "Moves things to an archive.",
      parameters: { properties },
    };
    const short = { key: "short", name: "invoice_archive", description: "Archives an invoice." };
    expect(keys(indexOf(...padding, long, short), "put this invoice into the archive")[0]).toBe("short");
  });

  test("a name that is said again as alias and title counts once", () => {
    const one = { key: "b", name: "pay_invoice", description: "Pays." };
    const twice = { ...one, key: "a", aliases: ["pay-invoice", "payInvoice"], title: "Pay invoice" };
    const scores = indexOf(one, twice)
      .search("the invoice please")
      .map(({ score }) => score);
    expect(scores[0]).toBeCloseTo(scores[1]!, 6);
  });
});

describe("requests out of the ordinary", () => {
  const index = indexOf(weather, mail, files, {
    key: "who",
    name: "who_is",
    description: "Looks up a person.",
  });

  test.each(["", "   \n\t", "!!! ??? …", "\ud800", "🚀🚀", "\u0000", "qqqqzzzzxxxx"])(
    "%j finds nothing",
    (query) => {
      expect(index.search(query)).toEqual([]);
    },
  );

  test("only stop words: names are searched, so they are not lost", () => {
    expect(keys(index, "who is that")).toEqual(["who"]);
    expect(keys(index, "because of the")).toEqual([]);
  });

  test("a megabyte is answered quickly, by its beginning", () => {
    const took = cpuTime(() => {
      expect(keys(index, `weather in town ${"lorem ipsum dolor ".repeat(60_000)}`)[0]).toBe("weather");
      expect(keys(index, "天".repeat(1_000_000)).length).toBeGreaterThan(0);
      expect(keys(index, "A".repeat(1_000_000))).toEqual([]);
    });
    expect(took).toBeLessThan(1_000);
  });

  test("names of object members are words like any other", () => {
    const special = indexOf({
      key: "__proto__",
      name: "constructor",
      description: "hasOwnProperty toString",
    });
    expect(keys(special, "constructor")).toEqual(["__proto__"]);
    expect(keys(special, "to string")).toEqual(["__proto__"]);
    expect(keys(special, "prototype")).toEqual([]);
  });

  test("a tool with a megabyte of description is indexed by its beginning", () => {
    const large = indexOf({
      key: "large",
      name: "large",
      description: `zebra ${"word ".repeat(250_000)}giraffe`,
    });
    expect(keys(large, "zebra")).toEqual(["large"]);
    expect(keys(large, "giraffe")).toEqual([]);
  });
});

test("whoever may not find a tool does not learn which words it has, nor by words that are nearly the same", () => {
  const hidden = { key: "hidden", name: "labex_wheather", description: "Citadel." };
  const accept = (key: string) => key !== "hidden";
  for (const query of ["wheather", "labex", "cita", "wheather in a city", "labex_wheath"])
    expect(keys(indexOf(weather, mail, hidden), query, { accept })).toEqual(
      keys(indexOf(weather, mail), query),
    );
  expect(keys(indexOf(weather, mail), "wheather")).toEqual(["weather"]);
});

test("whoever may find few of very many tools is answered nearly as soon as whoever may find all", () => {
  const index = indexOf(
    ...Array.from({ length: 20_000 }, (_, at) => ({
      key: `k${at}`,
      name: `report_${at}`,
      description: `Lists the orders of month ${at % 12}, of branch ${at % 40}.`,
    })),
  );
  let asked = 0;
  const few = (key: string) => {
    asked++;
    return key === "k7" || key === "k19999";
  };
  const search = (accept?: (key: string) => boolean) =>
    cpuTime(() => {
      for (let time = 0; time < 5; time++) index.search("orders of a month", { ...(accept && { accept }) });
    });
  const times = Array.from({ length: 5 }, () => [search(), search(few)] as const);
  // Nobody is asked twice about one tool.
  expect(asked).toBeLessThanOrEqual(5 * 5 * 20_000);
  expect(Math.min(...times.map(([, ofFew]) => ofFew))).toBeLessThan(
    8 * Math.min(...times.map(([ofAll]) => ofAll)),
  );
  expect(keys(index, "orders of a month", { accept: few })).toEqual(["k19999", "k7"]);
});

describe("limit", () => {
  const tools = Array.from({ length: 30 }, (_, at) => ({ key: `k${at}`, name: `report_${at}` }));
  const index = indexOf(...tools);

  test("ten matches unless told otherwise", () => {
    expect(index.search("report").length).toBe(10);
    expect(index.search("report", { limit: 3 }).length).toBe(3);
    expect(index.search("report", { limit: Number.POSITIVE_INFINITY }).length).toBe(30);
  });

  test.each([0, -1, Number.NaN])("a limit of %d gives nothing", (limit) => {
    expect(index.search("report", { limit })).toEqual([]);
  });
});

describe("change", () => {
  test("a removed tool is found neither by words nor by name nor by alias", () => {
    const index = indexOf(weather, mail);
    expect(index.remove("weather")).toBe(true);
    expect(index.remove("weather")).toBe(false);
    expect(index.size).toBe(1);
    for (const query of ["temperature", "getCurrentWeather", "wx", "天气", "weath"]) {
      expect(keys(index, query), query).toEqual([]);
    }
  });

  test("a tool can come back, and adding the same key replaces it", () => {
    const index = indexOf(weather, mail);
    index.remove("weather");
    index.add(weather);
    expect(keys(index, "temperature")).toEqual(["weather"]);
    index.add({ key: "weather", name: "tides", description: "High and low water" });
    expect(index.size).toBe(2);
    expect(keys(index, "temperature")).toEqual([]);
    expect(keys(index, "water")).toEqual(["weather"]);
  });

  test("scores do not remember what was removed", () => {
    const tools = Array.from({ length: 400 }, (_, at) => sample(at));
    const changed = indexOf(...tools);
    // Enough removals to compact the index more than once, with replacements between them.
    for (let at = 0; at < 400; at += at % 3 === 0 ? 1 : 2) changed.remove(`k${at}`);
    for (let round = 0; round < 5; round++) for (let at = 0; at < 60; at++) changed.add(sample(at));
    const left = new Set(changed.search("tool", { limit: 1_000 }).map(({ key }) => key));
    const fresh = indexOf(...tools.filter(({ key }) => left.has(key)));
    expect(changed.size).toBe(fresh.size);
    expect(left.size).toBe(fresh.size);
    for (const query of ["tool", "red tool for 5", "group 3", "tool_7", "alias12", "blu"]) {
      expect(changed.search(query, { limit: 1_000 })).toEqual(fresh.search(query, { limit: 1_000 }));
    }
  });

  test("an empty index answers, before and after", () => {
    const index = new ToolIndex();
    expect(index.search("weather")).toEqual([]);
    index.add(weather);
    index.remove("weather");
    expect([index.size, index.search("weather")]).toEqual([0, []]);
  });
});

function sample(at: number): SearchDocument {
  const colour = ["red", "blue", "green"][at % 3]!;
  return {
    key: `k${at}`,
    name: `tool_${at}`,
    aliases: [`alias${at}`],
    description: `A ${colour} tool of group ${at % 11}, ${"very ".repeat(at % 5)}long`,
  };
}

function indexOf(...documents: SearchDocument[]): ToolIndex {
  const index = new ToolIndex();
  for (const document of documents) index.add(document);
  return index;
}

function keys(index: ToolIndex, query: string, options?: Parameters<ToolIndex["search"]>[1]): string[] {
  return index.search(query, options).map(({ key }) => key);
}

describe("the beginning of a name", () => {
  const bulk = Array.from({ length: 5_000 }, (_, number) => ({
    key: `bulk_${number}`,
    name: `bulk_${number}`,
    description: `Handles 499 bulk goods number ${number}.`,
  }));
  const index = new ToolIndex();
  for (const document of [...bulk, weather, mail, files]) index.add(document);
  const keys = (query: string, limit = 20) => index.search(query, { limit }).map(({ key }) => key);

  test("finds every tool whose name begins so, before all others, the name itself first", () => {
    const tens = Array.from({ length: 10 }, (_, digit) => `bulk_499${digit}`);
    expect(keys("bulk_499", 11)).toEqual(["bulk_499", ...tens]);
    expect(keys("BULK_4999")[0]).toBe("bulk_4999");
    expect(keys("send_em")).toContain("mail");
    expect(keys("getcur")[0]).toBe("weather");
  });

  test("does not come before what a whole word finds", () => {
    const two = new ToolIndex();
    two.add({ key: "a", name: "file_info", description: "Facts." });
    two.add({ key: "b", name: "reader", description: "File, file and again file: reads a file." });
    two.add({ key: "c", name: "filename_of", description: "Something else." });
    expect(two.search("file").map(({ key }) => key)).toEqual(["b", "a", "c"]);
  });
});

test("replaces tens of thousands of documents with the same words in about the time that adding them took", () => {
  const index = new ToolIndex();
  const description = "Gets the weather report of a city and sends it by mail to a list of customers.";
  const addAll = () => {
    for (let n = 0; n < 30_000; n++) index.add({ key: `tool_${n}`, name: `tool_${n}`, description });
  };
  const added = cpuTime(addAll);
  const replaced = cpuTime(addAll);
  expect(replaced / added).toBeLessThan(4);
  for (let n = 0; n < 30_000; n += 2) index.remove(`tool_${n}`);
  expect(index.search("weather report", { limit: 30_000 })).toHaveLength(15_000);
});
