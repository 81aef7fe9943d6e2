import { expect, it } from "vitest";
import { effectScope, nextTick, shallowRef } from "vue";
import { ApiError } from "../api/index.ts";
import { type Draft, useDraft } from "./drafts.ts";

interface Note {
  readonly text: string;
  readonly isOn: boolean;
  readonly version: number;
}
const first: Note = { text: "a", isOn: true, version: 1 };

function open() {
  const source = shallowRef(first);
  // It lives as long as the test.
  const draft = effectScope().run(() =>
    useDraft(
      () => source.value,
      ({ text }) => ({ text }),
    ),
  ) as Draft<Note, { text: string }>;
  const come = async (note: Partial<Note>) => {
    source.value = { ...source.value, ...note, version: source.value.version + 1 };
    await nextTick();
  };
  /** A server that refuses a change of another version than its own. */
  const saving = {
    read: async () => source.value,
    async write({ version }: Note) {
      if (version !== source.value.version) throw new ApiError(409, "skill_changed", "changed");
      source.value = { ...source.value, text: draft.form.value.text, version: version + 1 };
      return source.value;
    },
  };
  return { source, draft, come, saving };
}

it("shows what others change while nothing is typed", async () => {
  const { draft, come } = open();
  await come({ text: "b" });
  expect(draft.form.value.text).toBe("b");
  expect(draft.isChanged.value).toBe(false);
});

it("keeps what is typed, and says what stands against it", async () => {
  const { draft, come, saving, source } = open();
  draft.form.value.text = "mine";
  await come({ text: "theirs" });
  expect(draft.form.value.text).toBe("mine");
  expect(draft.theirs.value).toMatchObject({ text: "theirs" });
  expect(await draft.save(saving)).toBe("conflict");
  expect(source.value.text).toBe("theirs");
  draft.keepMine();
  expect(await draft.save(saving)).toBe("saved");
  expect(source.value.text).toBe("mine");
});

it("takes theirs when it is told to", async () => {
  const { draft, come } = open();
  draft.form.value.text = "mine";
  await come({ text: "theirs" });
  draft.takeTheirs();
  expect(draft.form.value.text).toBe("theirs");
  expect(draft.isChanged.value).toBe(false);
});

it("is not held up by a change of something else, seen or not", async () => {
  const { draft, come, saving, source } = open();
  draft.form.value.text = "mine";
  await come({ isOn: false });
  expect(draft.theirs.value).toBeUndefined();
  source.value = { ...source.value, isOn: true, version: 9 };
  expect(await draft.save(saving)).toBe("saved");
  expect(source.value).toMatchObject({ text: "mine", isOn: true });
});

it("finds out by saving what it was not told of", async () => {
  const { draft, source } = open();
  draft.form.value.text = "mine";
  const server = { ...source.value, text: "theirs", version: 2 };
  const outcome = await draft.save({
    read: async () => server,
    write: async () => {
      throw new ApiError(409, "skill_changed", "changed");
    },
  });
  expect(outcome).toBe("conflict");
  expect(draft.theirs.value).toEqual(server);
});

it("keeps what is typed on while it is saved", async () => {
  const { draft, saving } = open();
  draft.form.value.text = "mine";
  const saved = draft.save(saving);
  draft.form.value.text = "mine and more";
  await saved;
  expect(draft.form.value.text).toBe("mine and more");
  expect(draft.isChanged.value).toBe(true);
});

it("says why it was refused, and is still changed", async () => {
  const { draft } = open();
  draft.form.value.text = "mine";
  const write = async () => {
    throw new ApiError(400, "invalid_request", "no");
  };
  await expect(draft.save({ write, read: async () => first })).rejects.toThrow("no");
  expect(draft.isChanged.value).toBe(true);
});
