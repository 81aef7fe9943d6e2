// @vitest-environment happy-dom
import { mount } from "@vue/test-utils";
import { expect, it } from "vitest";
import { nextTick, ref } from "vue";
import { createI18n } from "vue-i18n";
import { en } from "../i18n/en.ts";
import SchemaForm from "./SchemaForm.vue";

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

function open(schema: Record<string, unknown>, start: unknown, issues = new Map<string, string>()) {
  const value = ref(start);
  const changes: unknown[] = [];
  const problems: boolean[] = [];
  const i18n = createI18n({ legacy: false, locale: "en", messages: { en } });
  const wrapper = mount(SchemaForm, {
    global: { plugins: [i18n] },
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
