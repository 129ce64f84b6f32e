"""Holds the package to sdk/testdata, which the other languages' tests read too."""

import asyncio
import copy
import datetime
import http.server
import itertools
import json
import pathlib
import pickle
import re
import socket
import threading
import time
import unittest
import unittest.mock
import urllib.parse

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

import remit

LARGEST = 2**256 - 1
ANSWER = re.compile(r"(\d*) ?(\S*)(?: index (\d+))?(?: after (\S+))?$")


def read(name):
    return json.loads((pathlib.Path(__file__).parents[2] / "testdata" / name).read_text())


class Vectors(unittest.TestCase):
    def test_keys(self):
        vectors = read("keys.json")
        for v in vectors["keys"]:
            self.assertEqual(remit.key(v["intent"] * v.get("times", 1)), v["key"])
        for v in vectors["refused"]:
            if "utf8" not in v:
                intent = v.get("intent", "".join(map(chr, v.get("utf16", []))))
                self.assertRaises(ValueError, remit.key, intent)
        for v in 7, None, b"order-7", ["order-7"]:
            self.assertRaises(TypeError, remit.key, v)

    def test_units(self):
        vectors = read("units.json")
        for rows, convert in (vectors["parse"], remit.parse_units), (vectors["format"], remit.format_units):
            for text, decimals, want in rows:
                with self.subTest(text=text, decimals=decimals):
                    if want is None:
                        self.assertRaises(ValueError, convert, text, decimals)
                    else:
                        self.assertEqual(str(convert(text, decimals)), want)

    def test_nothing_is_sent_of_what_is_no_amount_or_intent(self):
        client = remit.Client("http://remit.test", send=self.fail)
        for amount in 0.5, 1e21, True, None, "1.5", "1e6", "-1", "01", "1 ", "", "1\n", "١", -1, LARGEST + 1:
            with self.subTest(amount=amount), self.assertRaises((TypeError, ValueError)):
                client.pay("order-7", "0x1", amount)
        self.assertRaises(ValueError, client.pay_many, "", [])

    def test_webhooks(self):
        secret = "whsec_DA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKis="
        body = '{"id":"evt_1","type":"payment.confirmed","timestamp":"2026-01-02T15:04:05.000Z","data":{"amount":9007199254740993}}'
        now = datetime.datetime.now(datetime.timezone.utc)
        headers = {"webhook-id": "evt_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": Webhook(secret).sign("evt_1", now, body)}
        self.assertEqual(remit.verify_webhook(secret, body.encode(), headers)["data"]["amount"], 9007199254740993)
        self.assertRaises(WebhookVerificationError, remit.verify_webhook, secret, body + " ", headers)


class API:
    """A client, and what answers its requests by a scenario, with a clock that only waits move."""

    def __init__(self, table, scenario, kind, url, key):
        self.table, self.scenario, self.seconds, self.made, self.queries = table, scenario, 0.0, {"POST": 0, "GET": 0}, []
        self.client = kind(url, key, send=self.send, now=lambda: self.seconds, sleep=self.sleep, timeout=scenario.get("timeout", 120))

    def sleep(self, seconds):
        self.seconds += seconds

    def call(self, run, name, **timeout):
        """Makes a call, run by run if it is a coroutine, and returns how it ended."""
        name, _, other = name.partition(" ")
        client, order, bodies = self.client, self.table["order"], self.table["bodies"]

        async def whole(made):
            return [item async for item in made] if name == "list" else await made

        try:
            made = {
                "pay": lambda: client.pay(other or "order-7", order["to"], order["amount"], order["reference"], order["metadata"], **timeout),
                "payMany": lambda: client.pay_many("order-7", **self.table["batch"], **timeout),
                "balance": lambda: client.balance(order["to"]),
                "createKey": client.create_key,
                "get": lambda: client.get("0x1"),
                "wait": lambda: client.wait(bodies["payment"], **timeout),
                "list": lambda: client.list(status="pending", cursor=None),
                "listKeys": client.list_keys,
            }[name]()
            made = run(whole(made)) if isinstance(client, remit.AsyncClient) else made
            kept = len(list(made)) if name == "list" else made["balance"] if name == "balance" else LARGEST
            return "paid" if kept in (2, LARGEST) else str(kept)
        except remit.Refused as e:
            return f"refused {e.code}" + ("" if e.index is None else f" {e.index}")
        except remit.IntentReused as e:
            return "reused stored" if e.stored and "2500000" in str(e) else "reused"
        except remit.OutcomeUnknown:
            return "unknown"

    def send(self, a):
        at = urllib.parse.urlsplit(a.url)
        key = a.headers.get("Idempotency-Key", "") + urllib.parse.parse_qs(at.query).get("idempotency_key", [""])[0]
        if key != remit.key("order-7") and (key or at.path.startswith("/send-payment")):
            raise ConnectionError("another intent's")
        answers = self.scenario["post" if a.method == "POST" else "look"]
        status, code, index, after = ANSWER.match(answers[min(self.made[a.method], len(answers) - 1)]).groups()
        self.made[a.method] += 1
        self.queries.append(at.query)
        if code == "meanwhile":
            raise ConnectionError(self.call(asyncio.run, "pay", timeout=40))
        if code == "lost":
            raise ConnectionError("lost")
        if code == "hang":
            self.seconds += a.timeout
            raise TimeoutError("hung")
        index, body = index and int(index), self.table["bodies"].get(code)
        if body is None and status == "422":
            body = {"detail": [{"type": code, "loc": ["body", "payments", "to" if index is None else index], "msg": "m"}]}
        elif body is None:
            body = {"detail": "d", "code": code, "index": index}
        return remit.Answer(int(status or 200), after, b"<html>" if code == "html" else json.dumps(body).encode())


class Scenarios(unittest.TestCase):
    def test_scenarios(self):
        table = read("scenarios.json")
        for s in table["scenarios"]:
            for kind, of in itertools.product([remit.Client, remit.AsyncClient], s.get("clients", [["http://remit.test/", "k"]])):
                with self.subTest(s["name"], kind=kind.__name__, of=of), asyncio.Runner() as runner:
                    self.hold(table, s, kind, *of, runner.run)

    def hold(self, table, scenario, kind, url, key, run):
        if scenario["want"] == "unusable":
            self.assertRaisesRegex(ValueError, "give ", API, table, scenario, kind, url, key)  # which says what to do
            return
        api = API(table, scenario, kind, url, key)
        for step in scenario.get("earlier", []) + [scenario]:
            timeout = {"timeout": step["timeout"]} if "timeout" in step else {}
            for i in range(step.get("others", 1)):
                name = f"pay other-{i}" if "others" in step else scenario.get("call", "pay")
                self.assertEqual(api.call(run, name, **timeout), step["want"])
            api.sleep(step.get("idle", 0))
        for method, want in ("POST", scenario["posts"]), ("GET", scenario["looks"]):
            self.assertTrue(api.made[method] > 1 if want == "some" else api.made[method] == want, f"{api.made} requests")
        low, high = scenario["seconds"]
        self.assertTrue(low <= api.seconds <= high, f"it took {api.seconds} s")
        self.assertEqual(api.queries, scenario.get("queries", api.queries))

    def test_errors_are_copied_and_pickled(self):
        answer = remit.Answer(500, None, b"no")
        for error in (
            remit.Refused(400, "insufficient_funds", "No.", 1), remit.IntentReused("order-7", {"payments": []}),
            remit.IntentReused("order-7", {"payments": []}, {"tx_hash": "0x1"}), remit.OutcomeUnknown(answer, TimeoutError("late")),
        ):
            for again in copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error)):
                self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))


class Network(unittest.TestCase):
    def test_urllib_repeats_nothing_and_follows_no_redirect(self):
        asked, no = [], b'{"detail":"No.","code":"insufficient_funds"}'

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = [(201, b'{"tx_hash":"0x1"}'), (0, b""), (307, no), (200, no), (400, no)][min(len(asked), 5) - 1]
                if status:
                    self.send_response(status)
                    self.send_header("Content-Length", len(body) + (9 if status == 200 else 0))  # a 200 that is cut
                    self.send_header("Location", "/again")
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            client = remit.Client(f"http://127.0.0.1:{server.server_port}", sleep=lambda s: time.sleep(s / 20))
            client.pay("order-1", "0x1", 1)
            with self.assertRaises(remit.OutcomeUnknown):
                client.pay("order-2", "0x1", 1, timeout=20)
            self.assertEqual(asked, ["/send-payment"] * 5)
            server.shutdown()

    def test_asynchronous_calls_end_in_time_and_what_goes_on_is_remembered(self):
        released, begin = threading.Event(), time.monotonic()

        def send(_):
            released.wait(20)
            return remit.Answer(400, None, b'{"detail":"No.","code":"insufficient_funds"}')

        async def run(client):
            calls = [asyncio.create_task(client.pay(f"order-{i}", "0x1", 1)) for i in range(50)]
            await asyncio.sleep(0)
            with self.assertRaises(remit.OutcomeUnknown):  # behind the others
                await client.pay("order-50", "0x1", 1, timeout=0.2)
            self.assertLess(time.monotonic() - begin, 10)
            for call in calls:
                call.cancel()
            released.set()
            with self.assertRaises(remit.OutcomeUnknown):  # though it is refused now
                await client.pay("order-0", "0x1", 1)

        asyncio.run(run(remit.AsyncClient("http://remit.test", send=send, timeout=20)))

    def test_no_payment_is_asked_for_after_the_deadline(self):
        found, connect, begin = threading.Event(), socket.create_connection, time.monotonic()

        def slow(*args, **kwargs):
            found.wait(20)
            return connect(*args, **kwargs)

        with socket.create_server(("127.0.0.1", 0)) as server, unittest.mock.patch("socket.create_connection", slow):
            client = remit.Client(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.2)
            self.assertRaises(remit.OutcomeUnknown, client.pay, "order-1", "0x1", 1)
            self.assertLess(time.monotonic() - begin, 10)
            found.set()
            server.settimeout(20)
            with server.accept()[0] as late:
                self.assertNotIn(b"amount", b"".join(iter(lambda: late.recv(4096), b"")))


if __name__ == "__main__":
    unittest.main()
