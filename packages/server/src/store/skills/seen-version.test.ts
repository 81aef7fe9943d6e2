import { expect, it } from "vitest";
import { SkillChangedError } from "../errors.ts";
import { describeOnEveryEngine } from "../testing/engines.fixture.ts";

describeOnEveryEngine((place) => {
  it("changes only the version that was seen, of skills, tools and experts", {
    timeout: 60_000,
  }, async () => {
    const { skills, experts } = await place.open(await place.make());
    const skill = await skills.add({ skill: { name: "Notes" }, tools: [], files: [] });
    const tool = (await skills.addTool(skill.id, { name: "take", type: "builtin", command: "x" }))!;
    const expert = await experts.add({ name: "Writer" });

    const newer = (await skills.update(skill.id, { description: "a" }, undefined, {
      seen: skill.updatedAt,
    }))!;
    expect(newer.updatedAt).toBeGreaterThan(skill.updatedAt);
    const late = skills.update(skill.id, { description: "b" }, undefined, { seen: skill.updatedAt });
    await expect(late).rejects.toMatchObject({ now: newer });
    await expect(late).rejects.toBeInstanceOf(SkillChangedError);
    expect((await skills.get(skill.id))!.description).toBe("a");

    await skills.updateTool(tool.id, { description: "a" }, { seen: tool.updatedAt });
    const lateTool = skills.updateTool(tool.id, { description: "b" }, { seen: tool.updatedAt });
    await expect(lateTool).rejects.toBeInstanceOf(SkillChangedError);

    await experts.update(expert.id, { description: "a" }, { seen: expert.updatedAt });
    const lateExpert = experts.update(expert.id, { description: "b" }, { seen: expert.updatedAt });
    await expect(lateExpert).rejects.toBeInstanceOf(SkillChangedError);
    expect(await experts.update(expert.id, { description: "c" })).toMatchObject({ description: "c" });
  });
});
