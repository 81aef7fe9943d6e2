// @vitest-environment happy-dom
import { config, mount } from "@vue/test-utils";
import { beforeAll, expect, it } from "vitest";
import { nextTick, ref } from "vue";
import { setLanguage } from "../text/index.ts";
import { components } from "../ui/index.ts";
import SchemaForm from "./SchemaForm.vue";

config.global.components = components;
beforeAll(() => setLanguage("en", { remember: false }));

const shapes: Record<string, { schema: Record<string, unknown>; values: unknown[] }> = {
  "plain types": {
    schema: {
      properties: {
        s: { type: "string" },
        n: { type: "number" },
        b: { type: "boolean" },
        e: { enum: ["x", 2, null] },
      },
    },
    values: [{}, { s: "" }, { s: "text", n: 0, b: false, e: 2 }, { n: -1.5e-7 }, { e: null }],
  },
  "a nullable choice": {
    schema: { properties: { a: { anyOf: [{ type: "string", enum: ["x", "y"] }, { type: "null" }] } } },
    values: [{}, { a: null }, { a: "x" }, { a: "not a choice" }],
  },
  "a nullable text": {
    schema: { properties: { a: { type: ["string", "null"] } } },
    values: [{}, { a: null }, { a: "" }, { a: "null" }],
  },
  "a text or a number": {
    schema: { properties: { a: { anyOf: [{ type: "string" }, { type: "number" }] } } },
    values: [{ a: "1" }, { a: 1 }],
  },
  "a discriminated union": {
    schema: {
      properties: {
        a: {
          oneOf: [
            { properties: { kind: { const: "one" }, x: { type: "string" } }, required: ["kind"] },
            { properties: { kind: { const: "two" }, y: { type: "number" } }, required: ["kind"] },
          ],
        },
      },
    },
    values: [{}, { a: { kind: "two", y: 3 } }, { a: { kind: "three" } }],
  },
  "a list of objects": {
    schema: {
      properties: { a: { type: "array", items: { type: "object", properties: { x: { type: "integer" } } } } },
    },
    values: [{ a: [] }, { a: [{ x: 1 }, {}, { x: null }] }, { a: "no list" }],
  },
  "a map": {
    schema: { properties: { a: { type: "object", additionalProperties: { type: "string" } } } },
    values: [{ a: {} }, { a: { "x y": "1", z: 2 } }],
  },
  anything: {
    schema: { properties: { a: {} } },
    values: [{ a: null }, { a: [1, { b: "c" }] }, { a: "text" }],
  },
  "a recursive reference": {
    schema: {
      $ref: "#/$defs/t",
      $defs: {
        t: {
          type: "object",
          properties: { name: { type: "string" }, kids: { type: "array", items: { $ref: "#/$defs/t" } } },
        },
      },
    },
    values: [{ name: "a", kids: [{ name: "b", kids: [{ kids: [] }] }] }],
  },
  "a tuple": {
    schema: { properties: { a: { type: "array", prefixItems: [{ type: "number" }, { type: "string" }] } } },
    values: [{ a: [] }, { a: [1, "x"] }, { a: [1, "x", "more"] }],
  },
  "a set of choices": {
    schema: { properties: { a: { type: "array", uniqueItems: true, items: { enum: ["x", "y"] } } } },
    values: [{ a: ["y"] }, { a: ["x", "x"] }, { a: ["z"] }],
  },
  "unknown keys": {
    schema: { properties: { a: { type: "string" } } },
    values: [{ a: "1", extra: { deep: [null] } }],
  },
};

for (const [name, { schema, values }] of Object.entries(shapes)) {
  it(`shows ${name} without changing the value`, () => {
    for (const value of values) {
      const { changes, wrapper } = open({ type: "object", ...schema }, value);
      expect(changes).toEqual([]);
      wrapper.unmount();
    }
  });
}

it("tells unset, empty and null apart", async () => {
  const { wrapper, value } = open({ type: "object", properties: { note: { type: ["string", "null"] } } }, {});
  await wrapper.get("input").setValue("x");
  await wrapper.get("input").setValue("");
  expect(value.value).toEqual({ note: "" });
  await wrapper.get('[aria-label="Set note to null"]').trigger("click");
  expect(value.value).toEqual({ note: null });
  await wrapper.get('[aria-label="Unset note"]').trigger("click");
  expect(value.value).toEqual({});
});

it("keeps a half-written number as it is typed, and says that it is none", async () => {
  const { wrapper, value, problems } = open(
    { type: "object", properties: { n: { type: "number" } } },
    { n: 5 },
  );
  const input = wrapper.get("input");
  await input.setValue("-");
  expect(input.element.value).toBe("-");
  expect(value.value).toEqual({ n: 5 });
  expect(problems.at(-1)).toBe(true);
  await input.setValue("-2.50");
  expect(value.value).toEqual({ n: -2.5 });
  expect(input.element.value).toBe("-2.50");
  expect(problems.at(-1)).toBe(false);
});

it("drops what is no value yet when other values are put in its place, though they are the same", async () => {
  const schema = { type: "object", properties: { n: { type: "integer" }, any: {} } };
  const { wrapper, problems } = open(schema, { n: 5 });
  await wrapper.get("input").setValue("abc");
  await wrapper.get("textarea").setValue("{ half");
  expect(problems.at(-1)).toBe(true);
  await wrapper.setProps({ modelValue: { n: 5 } });
  await nextTick();
  expect(wrapper.get("input").element.value).toBe("5");
  expect(wrapper.get("textarea").element.value).toBe("");
  expect(problems.at(-1)).toBe(false);
});

it("advises quotes only where they can be typed", async () => {
  const schema = { type: "object", properties: { id: { type: "integer" } } };
  const { wrapper } = open(schema, {});
  await wrapper.get("input").setValue("12345678901234567");
  expect(wrapper.text()).toContain("12345678901234567 has more digits than a number keeps");
  expect(wrapper.text()).not.toContain("quotes");
});

it("speaks of one entry and of many", () => {
  const list = (minItems: number) => ({ type: "array", minItems, items: { type: "string" } });
  const { wrapper } = open({ type: "object", properties: { one: list(1), two: list(2) } }, {});
  expect(wrapper.text()).toMatch(/at least 1 entry(?!s).*at least 2 entries/);
});

it("edits any field as JSON, and keeps what is typed until it is a value", async () => {
  const { wrapper, value } = open(
    { type: "object", properties: { tags: { type: "array", items: { type: "string" } } } },
    { tags: ["a"] },
  );
  await wrapper.get('[aria-label="Edit tags as JSON"]').trigger("click");
  const area = wrapper.get("textarea");
  await area.setValue('["a", ');
  expect(area.element.value).toBe('["a", ');
  expect(value.value).toEqual({ tags: ["a"] });
  await area.setValue('["a", "b"]');
  expect(value.value).toEqual({ tags: ["a", "b"] });
});

it("makes JSON of what is pasted into a field, and leaves what is typed", async () => {
  const { wrapper, value } = open({ type: "object", properties: { any: {} } }, { any: 1 });
  const area = wrapper.get("textarea");
  await area.setValue("{ a: [1,], }");
  await new Promise((resolve) => setTimeout(resolve));
  expect(value.value).toEqual({ any: 1 });
  await area.trigger("paste");
  await expect.poll(() => value.value).toEqual({ any: { a: [1] } });
});

it("fills in the other kind of a union with what that kind always has", async () => {
  const kind = (name: string) => ({
    title: name,
    type: "object",
    properties: { kind: { const: name } },
    required: ["kind"],
  });
  const { wrapper, value } = open(
    { type: "object", properties: { to: { oneOf: [kind("file"), kind("mail")] } } },
    {},
  );
  await wrapper.get('[aria-label="Kind of to"]').setValue("1");
  expect(value.value).toEqual({ to: { kind: "mail" } });
});

it("adds, fills and removes items of a list", async () => {
  const { wrapper, value } = open(
    { type: "object", properties: { names: { type: "array", items: { type: "string" } } } },
    {},
  );
  await wrapper.get('[aria-label="Add to names"]').trigger("click");
  await wrapper.get("input").setValue("Ada");
  await wrapper.get('[aria-label="Add to names"]').trigger("click");
  expect(value.value).toEqual({ names: ["Ada", ""] });
  await wrapper.get('[aria-label="Remove 1"]').trigger("click");
  expect(value.value).toEqual({ names: [""] });
});

it("shows what the server said at the field that it is about", async () => {
  const issues = new Map([["who.name", "It is too short."]]);
  const schema = {
    type: "object",
    properties: { who: { type: "object", properties: { name: { type: "string" } } } },
  };
  const { wrapper } = open(schema, { who: { name: "x" } }, issues);
  const input = wrapper.get("input");
  expect(input.attributes("aria-invalid")).toBe("true");
  const described = input.attributes("aria-describedby") ?? "";
  expect(wrapper.get(`[id="${described}"]`).text()).toBe("It is too short.");
});

it("names every control, also where no label stands beside it", () => {
  const schema = {
    type: "object",
    properties: {
      either: { anyOf: [{ type: "string" }, { type: "number" }] },
      headers: { type: "object", additionalProperties: { type: "string" } },
      rows: { type: "array", items: { type: "object", additionalProperties: { type: "integer" } } },
    },
  };
  const { wrapper } = open(schema, { either: "5", headers: { accept: "x" }, rows: [{ a: 1 }] });
  const names = wrapper.findAll("input, select").map((control) => {
    const label = wrapper.find(`label[for="${control.attributes("id")}"]`);
    return control.attributes("aria-label") ?? (label.exists() ? label.text() : undefined);
  });
  expect(names).toEqual(["Kind of either", "either", "Key in headers", "accept", "Key in 1", "a"]);
});

it("does not switch between form and JSON while what is typed is no value, for it would be lost", async () => {
  const { wrapper } = open({ type: "object", properties: { n: { type: "number" } } }, { n: 5 });
  const modes = () =>
    wrapper.findAll('[role="radio"]').map(({ element }) => (element as HTMLButtonElement).disabled);
  await wrapper.get("input").setValue("abc");
  expect(modes()).toEqual([true, true]);
  expect(wrapper.get<HTMLButtonElement>('[aria-label="Edit n as JSON"]').element.disabled).toBe(true);
  expect(wrapper.text()).toContain("Finish or undo what is typed to switch");
  await wrapper.get("input").setValue("6");
  expect(modes()).toEqual([false, false]);
});

it("takes no number for another one", async () => {
  const { wrapper, value, problems } = open(
    { type: "object", properties: { id: { type: "integer" }, any: {} } },
    { id: 1, any: 1 },
  );
  await wrapper.get("input").setValue("12345678901234567");
  await wrapper.get("textarea").setValue('{"id": 12345678901234567}');
  expect(value.value).toEqual({ id: 1, any: 1 });
  expect(problems.at(-1)).toBe(true);
  expect(wrapper.text()).toContain("12345678901234567 has more digits than a number keeps");
  await wrapper.get("textarea").setValue('{"id": "12345678901234567"}');
  await wrapper.get("input").setValue("123");
  expect(value.value).toEqual({ id: 123, any: { id: "12345678901234567" } });
  expect(problems.at(-1)).toBe(false);
});

it("unsets a date that is cleared", async () => {
  const { wrapper, value } = open(
    { type: "object", properties: { day: { type: "string", format: "date" } } },
    { day: "2026-11-15" },
  );
  await wrapper.get("input").setValue("");
  expect(value.value).toEqual({});
});

it("tells the bounds of a field beside it", () => {
  const schema = {
    type: "object",
    properties: { n: { type: "integer", minimum: 1, maximum: 50, description: "How many." } },
  };
  const { wrapper } = open(schema, {});
  const described = wrapper.get("input").attributes("aria-describedby") ?? "";
  expect(described.split(" ").map((id) => wrapper.get(`[id="${id}"]`).text())).toEqual([
    "1 to 50",
    "How many.",
  ]);
});

it("puts the control of a field before its buttons", () => {
  const { wrapper } = open(
    { type: "object", properties: { a: { type: "string" }, b: { type: "string" } } },
    { a: "x" },
  );
  const order = wrapper
    .findAll("input, button[aria-label]")
    .map((one) => one.attributes("aria-label") ?? "input");
  expect(order).toEqual(["input", "Unset a", "Edit a as JSON", "input", "Edit b as JSON"]);
});

it("leads to the first field that the server refused", async () => {
  const schema = { type: "object", properties: { a: { type: "string" }, b: { type: "string" } } };
  const { wrapper } = open(schema, {}, new Map(), document.body);
  await wrapper.setProps({ issues: new Map([["b", "It is required."]]) });
  await nextTick();
  expect(document.activeElement).toBe(wrapper.findAll("input")[1]!.element);
  wrapper.unmount();
});

it("takes the same file again, and says when it is larger than what the server takes", async () => {
  const { wrapper, value } = open(
    { type: "object", properties: { f: { type: "string", format: "binary" } } },
    {},
  );
  await wrapper.setProps({ largest: () => 3 });
  const picker = wrapper.get<HTMLInputElement>('input[type="file"]');
  const chosen = [new File(["hello"], "a.txt")];
  let reset = 0;
  Object.defineProperty(picker.element, "files", { value: chosen });
  Object.defineProperty(picker.element, "value", { set: () => reset++, get: () => "" });
  await picker.trigger("change");
  await expect.poll(() => value.value).toEqual({ f: "aGVsbG8=" });
  expect(reset).toBe(1);
  await nextTick();
  expect(wrapper.text()).toContain("the server takes 3B at most");
});

function open(
  schema: Record<string, unknown>,
  start: unknown,
  issues = new Map<string, string>(),
  attachTo?: HTMLElement,
) {
  const value = ref(start);
  const changes: unknown[] = [];
  const problems: boolean[] = [];
  const wrapper = mount(SchemaForm, {
    ...(attachTo === undefined ? {} : { attachTo }),
    props: {
      schema,
      issues,
      modelValue: start,
      label: "Arguments",
      "onUpdate:modelValue": async (changed: unknown) => {
        changes.push(changed);
        value.value = changed;
        await wrapper.setProps({ modelValue: changed });
        await nextTick();
      },
      "onUpdate:problem": (problem: boolean) => problems.push(problem),
    },
  });
  return { wrapper, value, changes, problems };
}

it("has nothing to add for a tool without parameters", () => {
  for (const schema of [
    { type: "object", properties: {} },
    { type: "object", additionalProperties: true },
  ]) {
    const wrapper = mount(SchemaForm, { props: { schema, modelValue: {}, label: "arguments" } });
    expect(wrapper.text()).toContain("This tool takes no arguments.");
    expect(wrapper.findAll("button").map((button) => button.text())).toEqual(["Form", "JSON"]);
  }
});

it("picks a moment of local time, and shows what is none as it is written", async () => {
  const schema = { properties: { at: { type: "string", format: "date-time" } } };
  const value = ref<unknown>({ at: "2026-03-15T09:30:00Z" });
  const wrapper = mount(SchemaForm, {
    props: {
      schema,
      modelValue: value.value,
      label: "arguments",
      "onUpdate:modelValue": async (changed: unknown) => {
        value.value = changed;
        await wrapper.setProps({ modelValue: changed });
      },
    },
  });
  const field = wrapper.get("input");
  expect(field.attributes("type")).toBe("datetime-local");
  await field.setValue("2026-05-01T08:00:00");
  const { at } = value.value as { at: string }; // Set by the field.
  expect(Date.parse(at)).toBe(new Date("2026-05-01T08:00:00").getTime());
  await wrapper.setProps({ modelValue: { at: "soon" } });
  expect(wrapper.get("input").attributes("type")).toBe("text");
});

it("searches in a list of more than 20 choices", async () => {
  const choices = Array.from({ length: 21 }, (_, index) => `city ${index}`);
  const props = { modelValue: {}, label: "arguments" };
  const long = mount(SchemaForm, { props: { schema: { properties: { to: { enum: choices } } }, ...props } });
  expect(long.get("input").attributes("role")).toBe("combobox");
  expect(long.find("select").exists()).toBe(false);
  const short = { properties: { to: { enum: choices.slice(1) } } };
  expect(
    mount(SchemaForm, { props: { schema: short, ...props } })
      .find("select")
      .exists(),
  ).toBe(true);
});
