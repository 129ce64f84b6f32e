"""Pays what it reads, for the suite of sdk/conformance_test.go: see sdk/go/internal/conformance."""

import asyncio
import os
import sys

import remit


async def main():
    api = remit.AsyncClient(os.environ["REMIT_URL"], os.environ["REMIT_API_KEY"], timeout=60)

    async def pay():
        for line in sys.stdin:
            intent, to, *amounts = line.split()
            try:
                if len(amounts) == 1:
                    paid = await api.pay(intent, to, amounts[0])
                else:
                    paid = await api.pay_many(intent, [{"to": to, "amount": amount} for amount in amounts])
                end = paid["tx_hash"]
            except remit.OutcomeUnknown:
                end = "unknown"
            except Exception as error:
                end = repr(error)
            print(intent, end, flush=True)

    await asyncio.gather(*(pay() for _ in range(16)))


asyncio.run(main())
