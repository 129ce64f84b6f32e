"""Holds the package to sdk/testdata, which the other languages' tests read too."""

import asyncio
import datetime
import http.server
import json
import pathlib
import threading
import time
import unittest
import urllib.parse

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

import remit

LARGEST = 2**256 - 1


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
    """Answers the requests of a scenario, with a clock that only waits move."""

    def __init__(self, table, scenario):
        self.table, self.scenario, self.seconds, self.made, self.keys = table, scenario, 0.0, {"POST": 0, "GET": 0}, set()

    def now(self):
        return self.seconds

    def sleep(self, seconds):
        self.seconds += seconds

    async def sleep_async(self, seconds):
        self.seconds += seconds

    def send(self, a):
        answers = self.scenario["post" if a.method == "POST" else "look"]
        words = answers[min(self.made[a.method], len(answers) - 1)].split()
        self.made[a.method] += 1
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(a.url).query)
        self.keys.add(a.headers.get("Idempotency-Key", "") + query.get("idempotency_key", [""])[0])
        if words[0] == "lost":
            raise ConnectionError("lost")
        if words[0] == "hang":
            self.seconds += a.timeout
            raise TimeoutError("hung")
        after = words[words.index("after") + 1] if "after" in words else None
        index = int(words[words.index("index") + 1]) if "index" in words else None
        bodies, code = self.table["bodies"], words[1] if len(words) > 1 else ""
        status = 200 if words[0] in bodies else int(words[0])
        if words[-1] in bodies:
            body = bodies[words[-1]]
        elif code == "{}":
            body = {}
        elif status == 201:
            body = bodies["payment"]
        elif status == 422:
            body = {"detail": [{"type": code, "loc": ["body", "payments", "to" if index is None else index], "msg": "m"}]}
        else:
            body = {"detail": "d", "code": code, "index": index}
        return remit.Answer(status, after, b"<html>" if code == "html" else json.dumps(body).encode())


class Scenarios(unittest.TestCase):
    def test_scenarios(self):
        table = read("scenarios.json")
        for scenario in table["scenarios"]:
            for run in self.sync, self.asynchronous:
                with self.subTest(scenario["name"], run=run.__name__):
                    api = API(table, scenario)
                    timeout = {"timeout": scenario["timeout"]} if "timeout" in scenario else {}
                    try:
                        got, kept = "paid", run(api, timeout, table, scenario.get("call", "pay"))
                        if kept is not None:
                            self.assertIn(kept, (2, LARGEST))
                    except remit.Refused as e:
                        got = f"refused {e.code}" + ("" if e.index is None else f" {e.index}")
                    except remit.IntentReused as e:
                        got = "reused stored" if e.stored and "2500000" in str(e) else "reused"
                    except remit.OutcomeUnknown:
                        got = "unknown"
                    self.assertEqual(got, scenario["want"])
                    for method, want in ("POST", scenario["posts"]), ("GET", scenario["looks"]):
                        self.assertTrue(api.made[method] > 1 if want == "some" else api.made[method] == want, f"{api.made} requests")
                    low, high = scenario["seconds"]
                    self.assertTrue(low <= api.seconds <= high, f"it took {api.seconds} s")
                    self.assertLessEqual(len(api.keys), 1)

    def sync(self, api, timeout, table, call):
        client = remit.Client("http://remit.test/", "k", send=api.send, now=api.now, sleep=api.sleep, **timeout)
        made = self.call(client, timeout, table, call)
        return len(list(made)) if call == "list" else made["balance"] if call == "balance" else None

    def asynchronous(self, api, timeout, table, call):
        async def run():
            client = remit.AsyncClient("http://remit.test/", "k", send=api.send, now=api.now, sleep=api.sleep_async, **timeout)
            made = self.call(client, timeout, table, call)
            if call == "list":
                return len([item async for item in made])
            made = await made
            return made["balance"] if call == "balance" else None

        return asyncio.run(run())

    def call(self, client, timeout, table, call):
        order, batch = table["order"], table["batch"]
        match call:
            case "pay":
                return client.pay("order-7", order["to"], order["amount"], order["reference"], order["metadata"], **timeout)
            case "payMany":
                return client.pay_many("order-7", **batch, **timeout)
            case "balance":
                return client.balance(order["to"])
            case "createKey":
                return client.create_key()
            case "wait":
                return client.wait(table["bodies"]["payment"], **timeout)
            case "list":
                return client.list(status="pending")


class Network(unittest.TestCase):
    def test_urllib_repeats_nothing_and_follows_no_redirect(self):
        asked = []

        class Server(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked.append(self.path)
                body, header = b'{"detail":"No.","code":"insufficient_funds"}', {}
                status = [201, 0, 307, 200, 400][len(asked) - 1] if len(asked) < 5 else 400
                if status == 0:
                    return self.connection.close()
                if status == 201:
                    body = b'{"tx_hash":"0x1"}'
                if status == 307:
                    header = {"Location": "/again"}
                self.send_response(status)
                self.send_header("Content-Length", len(body) + (9 if status == 200 else 0))  # a 200 that is cut
                for name, value in header.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

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


if __name__ == "__main__":
    unittest.main()
