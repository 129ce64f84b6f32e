"""What only Python has: sdk/go/remit_test.go holds the package to what every language promises."""

import asyncio
import copy
import pickle
import socket
import threading
import time
import unittest
import unittest.mock

import remit


class Python(unittest.TestCase):
    def test_errors_are_copied_and_pickled(self):
        answer = remit.Answer(500, None, b"no")
        for error in (
            remit.Refused(400, "insufficient_funds", "No.", 1), remit.IntentReused("order-7", {"payments": []}),
            remit.IntentReused("order-7", {"payments": []}, {"tx_hash": "0x1"}), remit.OutcomeUnknown(answer, TimeoutError("late")),
        ):
            for again in copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error)):
                self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))

    def test_asynchronous_calls_end_in_time_and_what_goes_on_is_remembered(self):
        released, begin = threading.Event(), time.monotonic()

        def send(a):
            released.wait(20)
            if a.timeout < 0.3:
                raise ConnectionError("lost")
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
            for timeout in 0.2, 20:  # though it is lost, and then refused, now: the first may be sent until then
                with self.assertRaises(remit.OutcomeUnknown):
                    await client.pay("order-0", "0x1", 1, timeout=timeout)
                self.assertGreater(client._memory.note(remit.key("order-0")).last - begin, 30)
            with self.assertRaises(ValueError):
                await client.pay("order-0", "0x1", 1, timeout=float("nan"))

        asyncio.run(run(remit.AsyncClient("https://remit.test", send=send, timeout=20)))

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
