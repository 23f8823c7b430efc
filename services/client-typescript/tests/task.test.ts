import assert from "node:assert/strict";
import { test } from "node:test";
import { allocPort, InvalidError, Readiness, taskDevices, taskPort, thisTask } from "../src/task/index.js";

const environment = {
  BOROUGH_CELL: "alpha",
  BOROUGH_USER: "ada",
  BOROUGH_JOB: "web",
  BOROUGH_INDEX: "3",
  BOROUGH_ATTEMPT: "18446744073709551",
  BOROUGH_NODE: "alpha-1",
  BOROUGH_TASK_DIR: "/var/task",
  HOST: "10.0.0.1",
  PORT_HTTP_MAIN: "8080",
};

test("a task knows who it is", () => {
  assert.deepEqual(thisTask(environment), {
    cell: "alpha",
    user: "ada",
    job: "web",
    index: 3,
    attempt: 18446744073709551n,
    node: "alpha-1",
    host: "10.0.0.1",
    directory: "/var/task",
  });
  const more = {
    ...environment,
    ...{ BOROUGH_ROLE: "worker", BOROUGH_ROLE_INDEX: "1", BOROUGH_HELPER: "log" },
    ...{ BOROUGH_ALLOC: "places/2", BOROUGH_ALLOC_SET: "places", BOROUGH_ALLOC_INDEX: "2", BOROUGH_ALLOC_DIR: "/a" },
  };
  const { role, alloc, helper } = thisTask(more);
  assert.deepEqual(
    [role, alloc, helper],
    [{ name: "worker", index: 1 }, { set: "places", index: 2, directory: "/a" }, "log"],
  );
});

test("outside a task, an error says what is missing", () => {
  const refused = (error: unknown) => error instanceof InvalidError && error.fields[0]?.field === "BOROUGH_CELL";
  assert.throws(() => thisTask({}), refused);
  assert.throws(() => thisTask({ ...environment, BOROUGH_INDEX: "x" }), /BOROUGH_INDEX: "x"/);
});

test("a task finds its ports and devices by their names in the job", () => {
  assert.equal(taskPort("http-main", environment), 8080);
  assert.throws(() => taskPort("admin", environment), /PORT_ADMIN: undefined; accepted: the name of a port/);
  assert.equal(allocPort("http-in", { BOROUGH_ALLOC_PORT_HTTP_IN: "7" }), 7);
  const devices = { BOROUGH_DEVICE_GPU: "GPU-1,GPU-2", BOROUGH_DEVICE_GPU_MILLIS: "500" };
  assert.deepEqual(taskDevices("gpu", devices), { ids: ["GPU-1", "GPU-2"], share: 0.5 });
  assert.deepEqual(taskDevices("gpu", {}), { ids: [], share: 0 });
});

test("readiness is what the probe sees", async () => {
  const readiness = new Readiness();
  const port = await readiness.listen({ port: 0, host: "127.0.0.1" });
  const probe = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`);
    return [answer.status, await answer.text()];
  };
  assert.deepEqual(await probe("/ready"), [503, "starting\n"]);
  readiness.set(true);
  assert.deepEqual(await probe("/ready?x=1"), [200, "ready\n"]);
  readiness.set(false, "no database");
  assert.deepEqual(await probe("/ready"), [503, "no database\n"]);
  assert.equal((await probe("/other"))[0], 404);
  await readiness.close();
});
