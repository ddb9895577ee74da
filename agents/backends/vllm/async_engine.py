"""vLLM's asynchronous engine in a process of its own: every request is answered as soon as its completion is there.

Requests join the running batch between two decoding steps, so a short completion does not wait for a long one. The engine
process samples while this process updates the policy. An event loop in a thread speaks to it; everything here may be
called from any thread.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from creditflow.agents.backends.base import Completion, GenerationError, GenerationRequest, Sampling, Submit
from creditflow.agents.backends.engine import ProbeResult, UniquePrompt
from creditflow.agents.backends.vllm.engine import VllmBase
from creditflow.agents.backends.vllm.parts import (
    CPU_BLOCK,
    completion_of,
    completion_parameters,
    completions_of,
    picture_options,
    probe_parameters,
    probe_result,
    starting,
)
from creditflow.agents.backends.vllm.picture_prompts import check_prompt, vllm_prompt
from creditflow.wrappers.records.pictures import EncodedPicture

__all__ = ["VllmAsyncEngine", "result_of", "stop_loop"]


class VllmAsyncEngine(VllmBase):
    """One ``AsyncLLM``.

    Completions depend on when requests arrive: the engine has one random stream, seeded when it starts.
    """

    reads_tensors = False  # its worker is in another process

    def _start(self, options: dict[str, Any]) -> Any:
        self._ids = count()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="creditflow-vllm", daemon=True)
        thread.start()
        try:
            # a fork would copy this process's threads and locks
            with starting(self.release, VLLM_WORKER_MULTIPROCESSING_METHOD="spawn"):
                llm = self._wait(_open(options))
        except BaseException:
            stop_loop(self._loop, thread)
            raise
        self.close = weakref.finalize(self, _shut_down, llm, self._loop, thread)  # also when the interpreter exits
        # the engine's own choice is not told to this process; the probe is then a little shorter or longer
        self.block_size = int(llm.vllm_config.cache_config.block_size or CPU_BLOCK)
        return llm

    @contextmanager
    def answering(self, sampling: Sampling, end_ids: frozenset[int]) -> Iterator[Submit]:
        """A function that starts a request and returns at once; at the end of the block running requests are aborted."""
        running: set[Future[Completion]] = set()

        async def complete(request: GenerationRequest) -> Completion:
            parameters = completion_parameters(sampling, end_ids, self._picture)
            output = await self._generate(request.ids, request.pictures, n=1, **parameters)
            return completion_of(output.outputs[0])

        def submit(request: GenerationRequest) -> Future[Completion]:
            future = asyncio.run_coroutine_threadsafe(complete(request), self._loop)
            running.add(future)
            future.add_done_callback(running.discard)
            return future

        try:
            yield submit
        finally:
            for future in list(running):
                future.cancel()

    def complete(
        self, prompts: Sequence[UniquePrompt], sampling: Sampling, end_ids: frozenset[int], seed: int
    ) -> list[list[Completion]]:
        """Generate the completions of every prompt; the seed is not used.

        Raises:
            GenerationError: the engine failed.
        """
        del seed  # see the class

        async def all_of_them() -> list[Any]:
            calls = (
                self._generate(
                    prompt.ids,
                    prompt.pictures,
                    n=len(prompt.places),
                    **completion_parameters(sampling, end_ids, self._picture),
                )
                for prompt in prompts
            )
            return list(await asyncio.gather(*calls))

        return [completions_of(output) for output in self._wait(all_of_them())]

    def probe(self, ids: NDArray[np.int32], tokens: int) -> ProbeResult:
        """Continue a fixed prompt on the same path as completions, cached blocks included."""
        return probe_result(self._wait(self._generate(ids, (), **probe_parameters(tokens))))

    def receive(self, tensors: Mapping[str, Any]) -> int:
        """Not possible: see ``reads_tensors``."""
        del tensors
        raise GenerationError("the engine is in another process: its weights are read from a folder")

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return result_of(work, self._loop)

    def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        async def called() -> Any:
            with self._failing(name):
                return await getattr(self._llm, name)(*arguments, **options)

        return self._wait(called())

    async def _generate(self, ids: NDArray[np.int32], pictures: Sequence[EncodedPicture], **parameters: Any) -> Any:
        """vLLM's output for one prompt, once it is finished."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        final = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **parameters)
        prompt = vllm_prompt(ids, pictures)
        with self._failing("generate"):
            [output] = [result async for result in self._llm.generate(prompt, final, str(next(self._ids)))]
        check_prompt(output, ids, pictures)
        return output


async def _open(options: dict[str, Any]) -> Any:
    """The engine; opened inside the event loop, which its tasks then belong to."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    return AsyncLLM.from_engine_args(AsyncEngineArgs(**options, **picture_options(options), disable_log_stats=True))


def _shut_down(llm: Any, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    """End the engine's process and the event loop."""
    llm.shutdown()
    stop_loop(loop, thread)


SECONDS: Final = 10.0  # for the tasks to end after their cancellation


def result_of(work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> Any:
    """Run a coroutine in the loop and return its result; the coroutine is cancelled if the wait is interrupted, for example by Ctrl-C.

    The future of ``run_coroutine_threadsafe`` alone would not do: Ctrl-C may come before it is returned.
    """
    tasks: list[asyncio.Task[Any]] = []
    given_up = threading.Event()

    async def kept() -> Any:
        if task := asyncio.current_task():
            tasks.append(task)
        if given_up.is_set():  # from here on whoever gives up finds the task
            work.close()
            raise asyncio.CancelledError
        return await work

    try:
        return asyncio.run_coroutine_threadsafe(kept(), loop).result()
    except BaseException:
        given_up.set()
        if not loop.is_closed():
            for task in tasks:
                loop.call_soon_threadsafe(task.cancel)
        raise


def stop_loop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, seconds: float = SECONDS) -> None:
    """Cancel the loop's tasks, wait until they have ended, and close the loop; a closed one is left alone.

    Args:
        loop: an event loop.
        thread: the thread that runs it.
        seconds: how long to wait; a task that ignores its cancellation is left behind.
    """
    if loop.is_closed():
        return
    if thread.is_alive():  # nothing could answer in a loop that has stopped
        asyncio.run_coroutine_threadsafe(_end_tasks(seconds), loop).result()
        loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def _end_tasks(seconds: float) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
