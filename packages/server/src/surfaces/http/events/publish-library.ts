import type { SkillLibrary } from "../../../skills/skill-library.ts";
import type { ToolSwitch } from "../../../store/tool-switches/tool-switch-store.ts";
import type { ToolSwitches } from "../../../switches/tool-switches.ts";
import type { EventFeed } from "./event-feed.ts";

/**
 * Tells the feed of skills and experts that became another, or are gone, and of tools that somebody switched on or off.
 * Answers how to stop.
 */
export function publishLibrary(
  feed: EventFeed,
  { skills, switches }: { readonly skills: SkillLibrary; readonly switches: ToolSwitches },
): () => void {
  const skillsNow = () =>
    skills.list().map(({ id, name, enabled, trusted, owner, tools, updatedAt, revision }) => {
      const told = { id, name, enabled, trusted, owner, toolCount: tools.length };
      return { told, state: JSON.stringify([told, updatedAt, revision, tools]) };
    });
  const expertsNow = () =>
    skills.experts.list().map(({ id, name, updatedAt, version }) => {
      const told = { id, name };
      return { told, state: JSON.stringify([told, updatedAt, version]) };
    });
  const stops = [
    skills.subscribe(publishChanges(feed, "skill", skillsNow)),
    skills.experts.subscribe(publishChanges(feed, "expert", expertsNow)),
    switches.subscribe(({ toolName, enabled, by, at }: ToolSwitch) =>
      feed.publish("tool.switched", { toolName, enabled, by, at }, "admins"),
    ),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

interface Seen {
  readonly told: { readonly id: string };
  /** Another text whenever anything of it is. */
  readonly state: string;
}

/** What is there at the beginning is not told of: whoever opens the stream reads the list. */
function publishChanges(feed: EventFeed, kind: string, look: () => readonly Seen[]): () => void {
  const read = () => new Map(look().map(({ told, state }) => [told.id, { told, state }]));
  let before = read();
  return () => {
    const now = read();
    for (const [id, { told, state }] of now) {
      if (before.get(id)?.state !== state) feed.publish(`${kind}.changed`, told, "admins");
    }
    for (const id of before.keys()) if (!now.has(id)) feed.publish(`${kind}.removed`, { id }, "admins");
    before = now;
  };
}
