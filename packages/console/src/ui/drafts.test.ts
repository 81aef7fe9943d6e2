// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { effectScope, nextTick, shallowRef } from "vue";
import { ApiError } from "../api/index.ts";
import { useDraft } from "./drafts.ts";

interface Note {
  readonly text: string;
  readonly isOn: boolean;
  readonly version: number;
}
const first: Note = { text: "a", isOn: true, version: 1 };

function open() {
  const source = shallowRef(first);
  /** A server that refuses a change of another version than its own. */
  const server = {
    read: async () => source.value,
    async write({ text }: { text: string }, { version }: Note) {
      if (version !== source.value.version) throw new ApiError(409, "skill_changed", "changed");
      source.value = { ...source.value, text, version: version + 1 };
      return source.value;
    },
  };
  const draft = effectScope().run(() =>
    useDraft(() => source.value, {
      formOf: ({ text }) => ({ text }),
      asText: ({ text }) => text,
      read: () => server.read(),
      write: (form, seen) => server.write(form, seen),
      onSaved: () => {},
    }),
  )!; // It lives as long as the test.
  const come = async (note: Partial<Note>) => {
    source.value = { ...source.value, ...note, version: source.value.version + 1 };
    await nextTick();
  };
  return { source, draft, come, server };
}

it("shows what others change while nothing is typed", async () => {
  const { draft, come } = open();
  await come({ text: "b" });
  expect(draft.form.text).toBe("b");
  expect(draft.isChanged).toBe(false);
});

it("keeps what is typed, and says what stands against it", async () => {
  const { draft, come, source } = open();
  draft.form.text = "mine";
  await come({ text: "theirs" });
  expect(draft.form.text).toBe("mine");
  expect(draft.conflict).toEqual({ theirs: "theirs", mine: "mine" });
  await draft.save();
  expect(source.value.text).toBe("theirs");
  draft.keepMine();
  await draft.save();
  expect(source.value.text).toBe("mine");
});

it("takes theirs when it is told to", async () => {
  const { draft, come } = open();
  draft.form.text = "mine";
  await come({ text: "theirs" });
  draft.takeTheirs();
  expect(draft.form.text).toBe("theirs");
  expect(draft.isChanged).toBe(false);
});

it("is not held up by a change of something else, seen or not", async () => {
  const { draft, come, source } = open();
  draft.form.text = "mine";
  await come({ isOn: false });
  expect(draft.conflict).toBeUndefined();
  source.value = { ...source.value, isOn: true, version: 9 };
  await draft.save();
  expect(source.value).toMatchObject({ text: "mine", isOn: true });
});

it("finds out by saving what it was not told of", async () => {
  const { draft, server } = open();
  draft.form.text = "mine";
  server.read = async () => ({ ...first, text: "theirs", version: 2 });
  server.write = async () => {
    throw new ApiError(409, "skill_changed", "changed");
  };
  await draft.save();
  expect(draft.conflict).toEqual({ theirs: "theirs", mine: "mine" });
});

it("keeps what is typed on while it is saved", async () => {
  const { draft } = open();
  draft.form.text = "mine";
  const saved = draft.save();
  draft.form.text = "mine and more";
  await saved;
  expect(draft.form.text).toBe("mine and more");
  expect(draft.isChanged).toBe(true);
});

it("says why it was refused, and is still changed", async () => {
  const { draft, server } = open();
  draft.form.text = "mine";
  server.write = async () => {
    throw new ApiError(400, "invalid_request", "no");
  };
  expect(await draft.save()).toBe(false);
  expect(draft.error?.message).toBe("no");
  expect(draft.isChanged).toBe(true);
});
