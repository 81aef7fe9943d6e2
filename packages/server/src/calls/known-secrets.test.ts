import { expect, it } from "vitest";
import { knownSecrets } from "./log.ts";

it("knows the passwords of databases, as written and as sent", () => {
  const databases = { a: "postgres://ann:p%40ss@h/db", b: "sqlite:data/app.db", c: "mysql://root@h/db" };
  expect(knownSecrets(databases, {})).toEqual(["p%40ss", "p@ss"]);
});

it("knows passwords in addresses, unless they are the user's name again", () => {
  const environment = {
    DATABASE_URL: "mysql://ann:s%2Fcret@h/db",
    REDIS: "redis://:redis-pass@h:6379",
    LOCAL: "postgres://postgres:postgres@localhost/db",
    HOME_PAGE: "http://h:80/a@b",
  };
  expect(knownSecrets({}, environment)).toEqual(["s%2Fcret", "s/cret", "redis-pass"]);
});

it("knows variables by their names, and takes neither short values nor places for secrets", () => {
  const environment = {
    OPENAI_API_KEY: "sk-12345678",
    GITHUB_TOKEN: "ghp_12345678",
    DB_PASSWORD: "hunter2xyz",
    AWS_SECRET_ACCESS_KEY: "aws-12345678",
    CI_TOKEN: "short",
    PWD: "/home/ann/project",
    OLDPWD: "/home/ann/other",
    SSH_KEY_PATH: "/home/ann/.ssh/id",
    KEYBOARD_LAYOUT: "us-international",
    MONKEY: "chimpanzee",
  };
  expect(knownSecrets({}, environment)).toEqual([
    "sk-12345678",
    "ghp_12345678",
    "hunter2xyz",
    "aws-12345678",
  ]);
});
