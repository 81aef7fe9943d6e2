import { isDuplicateKey } from "../database/error-kind.ts";
import type { StoreDatabase, ToolSwitchRow } from "../database/schema.ts";
import { toKey } from "../database/storable-text.ts";
import type { RegistryVersion } from "../registry-version/registry-version.ts";
import type { ToolSwitch, ToolSwitchStore } from "./tool-switch-store.ts";

export class ToolSwitchRepository implements ToolSwitchStore {
  readonly #db: StoreDatabase;
  readonly #version: RegistryVersion;

  constructor(db: StoreDatabase, version: RegistryVersion) {
    this.#db = db;
    this.#version = version;
  }

  async set(decided: ToolSwitch): Promise<void> {
    const row: ToolSwitchRow = {
      // Names that differ by case only are one.
      name_key: toKey(decided.toolName.toLowerCase()),
      tool_name: toKey(decided.toolName),
      enabled: decided.enabled ? 1 : 0,
      switched_by: toKey(decided.by),
      switched_at: decided.at,
    };
    try {
      await this.#write(row);
    } catch (error) {
      // Somebody else has set it in between.
      if (!isDuplicateKey(error)) throw error;
      await this.#write(row);
    }
  }

  async list(): Promise<ToolSwitch[]> {
    const rows = await this.#db.selectFrom("tool_switches").selectAll().orderBy("name_key").execute();
    return rows.map((row) => ({
      toolName: row.tool_name,
      enabled: row.enabled === 1,
      by: row.switched_by,
      at: row.switched_at,
    }));
  }

  async #write(row: ToolSwitchRow): Promise<void> {
    await this.#db.transaction().execute(async (transaction) => {
      await transaction.deleteFrom("tool_switches").where("name_key", "=", row.name_key).execute();
      await transaction.insertInto("tool_switches").values(row).execute();
      await this.#version.bump(transaction);
    });
  }
}
