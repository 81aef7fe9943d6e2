import "./main.css";
import { createApp } from "vue";
import { openSession } from "./api/index.ts";
import { App, openRouter } from "./shell/index.ts";
import { i18n, preferredLanguage, setLanguage } from "./text/index.ts";
import { ui } from "./ui/index.ts";

// Before the router reads the address, the token is taken out of it, to stay out of the browser's history.
openSession();
setLanguage(preferredLanguage(), { remember: false });
createApp(App).use(i18n).use(ui).use(openRouter()).mount("#app");
