import { testCalls } from "./testing/calls.fixture.ts";
import { testChat } from "./testing/chat.fixture.ts";
import { describeOnEveryEngine } from "./testing/engines.fixture.ts";
import { testOpening } from "./testing/opening.fixture.ts";
import { testSkills } from "./testing/skills.fixture.ts";
import { testSmallStores } from "./testing/small-stores.fixture.ts";

describeOnEveryEngine((place) => {
  testOpening(place);
  testCalls(place);
  testSmallStores(place);
  testSkills(place);
  testChat(place);
});
